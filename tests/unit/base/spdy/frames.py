"""Frames of all kinds, for hypothesis."""

from hypothesis import strategies as st

from pykubelet.base.spdy.frames import (
    Data,
    Frame,
    GoAway,
    HeadersFrame,
    Ping,
    RstStream,
    SettingsFrame,
    SynReply,
    SynStream,
    WindowUpdate,
)

STREAMS = st.integers(1, 2**31 - 1)
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20).map(str.lower)
VALUES = st.text(st.characters(max_codepoint=255), max_size=50)
HEADERS = st.dictionaries(NAMES, VALUES, max_size=8)
WORDS = st.integers(0, 2**31 - 1)
FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.builds(SynStream, STREAMS, HEADERS, WORDS, st.integers(0, 7), st.booleans(), st.booleans()),
    st.builds(SynReply, STREAMS, HEADERS, st.booleans()),
    st.builds(HeadersFrame, STREAMS, HEADERS, st.booleans()),
    st.builds(RstStream, STREAMS, st.integers(0, 2**32 - 1)),
    st.builds(
        SettingsFrame, st.lists(st.tuples(st.integers(0, 2**24 - 1), st.integers(0, 2**32 - 1)), max_size=5).map(tuple)
    ),
    st.builds(Ping, st.integers(0, 2**32 - 1)),
    st.builds(GoAway, WORDS, st.integers(0, 2**32 - 1)),
    st.builds(WindowUpdate, WORDS, WORDS),
    st.builds(Data, STREAMS, st.binary(max_size=300), st.booleans()),
)
