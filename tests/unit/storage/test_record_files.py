"""Journals can be read by every later version: the bytes of each input are fixed here. Files with
other bytes are refused, with words for what is wrong."""

from pathlib import Path
from typing import get_args
from zlib import crc32

import pytest

from byway.core.actions import Timer
from byway.core.compared_tables import RECHECK_TIMER
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    Input,
    LinkDown,
    LinkLoad,
    LinkUp,
    LoadSampled,
    MessageDiscarded,
    NeighbourAdded,
    NeighbourRemoved,
    NeighbourReplaced,
    NeighboursListed,
    RequestDiscarded,
    Started,
    TimerFired,
)
from byway.core.recovery import TIMER as TABLE_SYNC
from byway.core.takeover import TIMER as TAKEOVER
from byway.model import parse
from byway.model.addresses import Address, Listing, Neighbour
from byway.model.errors import StorageError
from byway.model.messages import (
    Acknowledge,
    Batch,
    Hello,
    Lane,
    Publish,
    PublishRequest,
    SubscribeRequest,
)
from byway.storage.file_system import OS_FILES
from byway.storage.record_files import (
    DamagedError,
    RecordFile,
    TornError,
    decode_inputs,
    encode_inputs,
    record,
    title,
)

GOLDEN = [
    (
        Started(),
        "92079192a77374617274656480",
    ),
    (
        FrameReceived("B2", Acknowledge(3, 2, 1)),
        "92079192a56672616d6582a46c696e6ba24232a56672616d6594a361636b030201",
    ),
    (
        FrameReceived("B2", Batch(Lane.DATA, 9, (Publish("p", 1, 5, 100, 1, 2, 3, b"body"),))),
        "92079192a56672616d6582a46c696e6ba24232a56672616d6594a5626174636801099199a3707562"
        "a170010564010203c404626f6479",
    ),
    (
        LinkUp("B2", Hello("B2", 17, 4, 3, 2, 1, 6)),
        "92079192a76c696e6b2d757083a46c696e6ba24232a568656c6c6fdc0010a568656c6c6fa2423211"
        "040302010603c0a0c2c2cd100090c0a473616964c0",
    ),
    (
        LinkDown("B2"),
        "92079192a96c696e6b2d646f776e81a46c696e6ba24232",
    ),
    (
        ClientAttached("c", 2, 3, 4, resumes=True),
        "92079192a8617474616368656485a6636c69656e74a163ab696e6361726e6174696f6e02ae736573"
        "73696f6e5f74746c5f757303a8726563656976656404a7726573756d6573c3",
    ),
    (
        ClientDetached("c", True),
        "92079192a8646574616368656482a6636c69656e74a163a8666f725f676f6f64c3",
    ),
    (
        ClientRequested("c", (PublishRequest(1, b"body"), SubscribeRequest("s", parse("a > 1")))),
        "92079192a561736b656482a6636c69656e74a163a872657175657374739293a5632d70756201c404"
        "626f647993a5632d737562a1739291919192a16196a26e7201c3cb7ff0000000000000c290c2",
    ),
    (
        TimerFired(Timer("session", "c")),
        "92079192a574696d657281a574696d657282a56f776e6572a773657373696f6ea664657461696ca1"
        "63",
    ),
    (
        LoadSampled(3, (LinkLoad("B2", 4, 800, 90_000, 70, 30, 1_500),), 0.5, 12, 7),
        "92079192a46c6f616485a671756575656403a56c696e6b739187a46c696e6ba24232a77761697469"
        "6e6704ad77616974696e675f6279746573cd0320aa73656e745f6279746573ce00015f90a9776169"
        "7465645f757346aa736572766963655f75731ead726f756e645f747269705f7573cd05dca675706c"
        "696e6bcb3fe0000000000000a97761697465645f75730caa736572766963655f757307",
    ),
    (
        NeighbourAdded("B3"),
        "92079192a5616464656481a96e65696768626f7572a24233",
    ),
    (
        NeighbourRemoved("B3"),
        "92079192a772656d6f76656481a96e65696768626f7572a24233",
    ),
    (
        NeighbourReplaced("B3", "B4", "h:3"),
        "92079192a87265706c6163656483a96e65696768626f7572a24233a9737563636573736f72a24234"
        "a761646472657373a3683a33",
    ),
    (
        NeighboursListed(
            Listing((Neighbour(Address("h", 3), "B3"),), (Neighbour(Address("h", 4)),))
        ),
        "92079192a66c697374656481a76c697374696e6782a66c69737465649182a76164647265737382a4"
        "686f7374a168a4706f727403a26964a24233a561646465649182a76164647265737382a4686f7374"
        "a168a4706f727404a26964a0",
    ),
    (
        MessageDiscarded("B2", Batch(Lane.DATA, 9, (Publish("p", 1, 5, 100, 1, 2, 3, b"body"),))),
        "92079192b16d6573736167652d64697363617264656482a46c696e6ba24232a5626174636894a562"
        "6174636801099199a3707562a170010564010203c404626f6479",
    ),
    (
        RequestDiscarded("c", PublishRequest(1, b"body")),
        "92079192b1726571756573742d64697363617264656482a6636c69656e74a163a772657175657374"
        "93a5632d70756201c404626f6479",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("event", "data"), GOLDEN)
def test_golden_bytes(event: Input, data: str) -> None:
    assert encode_inputs(7, [event]).hex() == data
    assert decode_inputs(bytes.fromhex(data)) == (7, [event])


def test_a_load_sample_of_an_earlier_version_is_read() -> None:
    """Of links it had only how many messages wait, which nothing went by."""
    data = (
        "92079192a46c6f616483a671756575656403a76f7574707574739192a2423204a675706c696e6bcb"
        "3fe0000000000000"
    )
    assert decode_inputs(bytes.fromhex(data)) == (7, [LoadSampled(3, (), 0.5)])


def test_what_an_earlier_version_wrote_is_read() -> None:
    """It did not tell whether a client resumes."""
    data = (
        "92079192a8617474616368656484a6636c69656e74a163ab696e6361726e6174696f6e02ae736573"
        "73696f6e5f74746c5f757303a8726563656976656404"
    )
    assert decode_inputs(bytes.fromhex(data)) == (7, [ClientAttached("c", 2, 3, 4)])


@pytest.mark.parametrize(
    ("before", "now"),
    [("agreement", TABLE_SYNC), ("heirs", TAKEOVER), ("sifting", RECHECK_TIMER)],
)
def test_timers_of_an_earlier_version_have_their_present_owner(before: str, now: Timer) -> None:
    data = encode_inputs(7, [TimerFired(Timer(before))])
    assert decode_inputs(data) == (7, [TimerFired(now)])


def test_every_input_has_golden_bytes() -> None:
    assert {type(event) for event, _ in GOLDEN} == set(get_args(Input))


def test_inputs_keep_their_order() -> None:
    events: list[Input] = [LinkDown("B2"), Started(), LinkDown("B1")]
    assert decode_inputs(encode_inputs(1, events)) == (1, events)


# --- files -------------------------------------------------------------------------------------

FIRST, SECOND = record(b"first"), record(b"second")
SOUND = title("journal") + FIRST + SECOND


def test_records_are_read_in_order(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(SOUND)
    assert list(RecordFile(OS_FILES, file, "journal")) == [b"first", b"second"]


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (b"something else\n", StorageError, "is not a journal of a byway broker"),
        (b"SQLite format 3\0" + bytes(100), StorageError, "is not a journal of a byway broker"),
        (title("state") + FIRST, StorageError, "is not a journal of a byway broker"),
        (b"byway journal x\n", StorageError, "is not a journal of a byway broker"),
        (b"byway journal 3\n", StorageError, "layout version 3, this byway reads versions 1 to 2"),
        (SOUND[:-1] + b"?", DamagedError, "checksum at byte 33 does not match"),
        (
            SOUND + b"?" * 64,
            DamagedError,
            f"length at byte {len(SOUND)} does not match its checksum",
        ),
        (SOUND + bytes(64), TornError, f"nothing but zeros from byte {len(SOUND)} on"),
        (bytes(64), TornError, "ends within its first line"),
        (b"", TornError, "ends within its first line"),
        (b"byway jour", TornError, "ends within its first line"),
        (SOUND[:-1], TornError, "ends within the record at byte 33"),
        (SOUND + FIRST[:3], TornError, f"ends within the record at byte {len(SOUND)}"),
    ],
)
def test_other_bytes_are_refused(
    data: bytes, kind: type[StorageError], reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    with pytest.raises(StorageError, match=reason) as caught:
        list(RecordFile(OS_FILES, file, "journal"))
    assert type(caught.value) is kind
    assert str(caught.value).startswith(f"{file}: ")


def test_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read: No such file"):
        list(RecordFile(OS_FILES, tmp_path / "file", "journal"))


def test_a_cut_anywhere_is_told_or_is_between_records(tmp_path: Path) -> None:
    file = tmp_path / "file"
    whole = {len(title("journal")), len(title("journal") + FIRST)}
    for length in range(len(SOUND)):
        file.write_bytes(SOUND[:length])
        if length in whole:
            list(RecordFile(OS_FILES, file, "journal"))
        else:
            with pytest.raises(TornError):
                list(RecordFile(OS_FILES, file, "journal"))


def test_a_length_that_was_spoilt_is_no_end(tmp_path: Path) -> None:
    """Or all that follows would be taken for a record that was never written whole."""
    file = tmp_path / "file"
    first = len(title("journal"))
    for at in range(first, first + 4):
        data = bytearray(SOUND)
        data[at] ^= 0x80
        file.write_bytes(data)
        with pytest.raises(DamagedError, match=f"length at byte {first} ") as caught:
            list(RecordFile(OS_FILES, file, "journal"))
        assert type(caught.value) is DamagedError


def test_layout_1_is_read(tmp_path: Path) -> None:
    """It had no checksum of the length."""
    file = tmp_path / "file"
    old = b"".join(
        len(payload).to_bytes(4) + crc32(payload).to_bytes(4) + payload
        for payload in (b"first", b"second")
    )
    file.write_bytes(b"byway journal 1\n" + old)
    assert list(RecordFile(OS_FILES, file, "journal")) == [b"first", b"second"]
    for spoilt, kind in ((old[:-1], TornError), (old[:-1] + b"?", DamagedError)):
        file.write_bytes(b"byway journal 1\n" + spoilt)
        with pytest.raises(kind):
            list(RecordFile(OS_FILES, file, "journal"))
