"""Names, images and bytes that a removal takes away."""

from pykubelet.criserver.images import ImageConfig, ImageRecord, Layer
from pykubelet.criserver.images.plan.removal import released_blob_bytes, released_layers, unused, without_name

_D = "sha256:" + "a" * 64


def _image(
    number: int, *tags: str, digests: tuple[str, ...] = (), layers: str = "", pinned: bool = False
) -> ImageRecord:
    stack = tuple(Layer(f"blob-{name}", 100, "tar", f"diff-{name}", f"chain-{name}") for name in layers)
    size = 10 + sum({layer.digest: layer.size for layer in stack}.values())
    return ImageRecord(f"sha256:{number}", tags, digests, size, ImageConfig(), stack, f"manifest-{number}", pinned)


def test_name_of_several_is_removed_alone() -> None:
    image = _image(1, "h/a:1", "h/a:2", "h/b:1", digests=(f"h/a@{_D}", f"h/b@{_D}"))
    left = without_name(image, "h/a:1")
    assert left is not None and (left.tags, left.digests) == (("h/a:2", "h/b:1"), image.digests)
    left = without_name(image, "h/b:1")
    assert left is not None and (left.tags, left.digests) == (("h/a:1", "h/a:2"), (f"h/a@{_D}",))


def test_last_tag_takes_the_digest_of_its_repository_and_the_image() -> None:
    assert without_name(_image(1, "h/a:1", digests=(f"h/a@{_D}",)), "h/a:1") is None
    pulled_by_digest = without_name(_image(1, "h/a:1", digests=(f"h/b@{_D}",)), "h/a:1")
    assert pulled_by_digest is not None and pulled_by_digest.digests == (f"h/b@{_D}",)
    assert without_name(_image(1, digests=(f"h/b@{_D}",)), f"h/b@{_D}") is None
    kept = without_name(_image(1, "h:5000/a:1", digests=(f"h:5000/a@{_D}",)), f"h:5000/a@{_D}")
    assert kept is not None and (kept.tags, kept.digests) == (("h:5000/a:1",), ())


def test_unused_images_are_neither_used_nor_pinned() -> None:
    images = [_image(1, "a:1"), _image(2), _image(3, "c:1"), _image(4), _image(5, "e:1", pinned=True)]
    assert [image.id for image in unused(images, {"sha256:1", "sha256:4"}, also_tagged=False)] == ["sha256:2"]
    assert [image.id for image in unused(images, {"sha256:1"}, also_tagged=True)] == [
        "sha256:2",
        "sha256:3",
        "sha256:4",
    ]


def test_shared_layers_are_released_with_their_last_image() -> None:
    one, two, three = _image(1, layers="ab"), _image(2, layers="bc"), _image(3, layers="c")
    assert released_layers([one, two], [three]) == {"chain-a", "chain-b"}
    assert released_blob_bytes([one, two], [three]) == 10 + 10 + 200
    assert released_blob_bytes([one], [two, three]) == 10 + 100
    assert released_blob_bytes([one, two, three], []) == 30 + 300
