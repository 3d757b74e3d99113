"""Huge pages: which memory is offered to the system, and that nothing else depends on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from byway.sim import huge_pages
from byway.sim.huge_pages import PAGE_BYTES, WORTHWHILE_BYTES, use_huge_pages

MAPPINGS = """\
55d000000000-55d000400000 r-xp 00000000 fe:00 4711 /usr/bin/python3.11
55d000400000-55d000800000 rw-p 00400000 fe:00 4711 /usr/bin/python3.11
55d010001000-55d010a01000 rw-p 00000000 00:00 0    [heap]
7f0000001000-7f0000400000 rw-p 00000000 00:00 0
7f0000600000-7f0010600000 rw-p 00000000 00:00 0
7f0020000000-7f0030000000 ---p 00000000 00:00 0
7f0040000000-7f0050000000 rw-s 00000000 00:01 9    /dev/shm/shared
7ffd00000000-7ffd01000000 rw-p 00000000 00:00 0    [stack]
"""


def test_private_memory_of_no_file_is_offered_in_whole_pages(tmp_path: Path) -> None:
    mappings = tmp_path / "maps"
    mappings.write_text(MAPPINGS)
    assert list(huge_pages._heap(mappings)) == [
        (0x55D010200000, 4 * PAGE_BYTES),
        (0x7F0000200000, PAGE_BYTES),
        (0x7F0000600000, 128 * PAGE_BYTES),
    ]


def test_all_of_it_is_gathered_if_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mappings = tmp_path / "maps"
    mappings.write_text(MAPPINGS)
    calls: list[tuple[int, int, int]] = []

    def advise(address: int, size: int, advice: int) -> int:
        calls.append((address, size, advice))
        return -1 if size == PAGE_BYTES else 0

    monkeypatch.setattr(huge_pages, "_advise", lambda: advise)
    assert use_huge_pages(mappings) == 132 * PAGE_BYTES  # one of the three was refused
    assert [call[2] for call in calls] == [25, 25, 25]
    calls.clear()
    mappings.write_text("\n".join(MAPPINGS.splitlines()[:4]))
    assert use_huge_pages(mappings) == 0  # it is not worth while
    assert calls == []
    monkeypatch.setattr(huge_pages, "_advise", lambda: None)
    mappings.write_text(MAPPINGS)
    assert use_huge_pages(mappings) == 0  # no such call


def test_what_the_system_refuses_stays_as_it_is(tmp_path: Path) -> None:
    mappings = tmp_path / "maps"
    start = 1 << 45  # nothing of a test is mapped there
    mappings.write_text(f"{start:x}-{start + WORTHWHILE_BYTES:x} rw-p 00000000 00:00 0\n")
    assert use_huge_pages(mappings) == 0


def test_a_system_that_lists_no_mappings_changes_nothing(tmp_path: Path) -> None:
    assert use_huge_pages(tmp_path / "none") == 0


def test_memory_has_the_same_content_in_huge_pages() -> None:
    own = bytearray(range(256)) * (WORTHWHILE_BYTES // 128)
    taken = use_huge_pages()
    assert taken >= 0
    assert own == bytearray(range(256)) * (WORTHWHILE_BYTES // 128)
