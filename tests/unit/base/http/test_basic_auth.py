"""Base64 of user name and password."""

import base64

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.base.http import basic_auth


@pytest.mark.parametrize(("username", "password"), [("me", "secret"), ("", ""), ("me", "a:b"), ("Jörg", "päß")])
def test_encoded_credentials_are_decoded_unchanged(username: str, password: str) -> None:
    assert basic_auth.decode(basic_auth.encode(username, password)) == (username, password)


@pytest.mark.parametrize(
    "text", ["bm9jb2xvbg==", "%%%", "bWU6cHc", " bWU6cHc=", "päß", base64.b64encode(b"me:\xff").decode()]
)
def test_anything_else_is_invalid_and_not_in_the_message(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        basic_auth.decode(text)
    assert str(caught.value) == "not base64 of username:password"
