from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pykubelet.base.exposition import Exposition, label_text


def test_families_come_in_order_and_only_with_series() -> None:
    out = Exposition()
    out.family("b_total", "counter", "Bees.")
    out.family("a", "gauge", "Ays.")
    out.family("c", "gauge", "None of it.")
    out.add("a", "", 1.5)
    out.add("b_total", 'x="1"', 3, 1000)
    out.family("a", "gauge", "Ays.")
    out.add("a", 'y="2"', None)
    out.add("a", 'y="3"', 4)
    assert out.render().decode() == (
        '# HELP b_total Bees.\n# TYPE b_total counter\nb_total{x="1"} 3 1000\n'
        '# HELP a Ays.\n# TYPE a gauge\na 1.5\na{y="3"} 4\n'
    )


def test_no_metrics_are_an_empty_text() -> None:
    assert Exposition().render() == b""


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e")))
def test_any_label_value_is_read_back(value: str) -> None:
    out = Exposition()
    out.family("a", "gauge", "Ays.")
    out.add("a", label_text({"name": value, "other": "x"}), 1)
    (family,) = text_string_to_metric_families(out.render().decode())
    assert family.samples[0].labels == {"name": value, "other": "x"}


@given(st.one_of(st.floats(allow_nan=False), st.integers(-(2**60), 2**60)))
def test_any_number_is_read_back(value: float) -> None:
    out = Exposition()
    out.family("a", "gauge", "Ays.")
    out.add("a", "", value)
    (family,) = text_string_to_metric_families(out.render().decode().replace("inf", "Inf"))
    assert family.samples[0].value == value
