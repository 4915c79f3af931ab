"""Dead letters: lines in files of a folder with a size limit."""

from __future__ import annotations

import json

from rxtemporal.serve.dead_letters import DeadLetter, DeadLetters
from rxtemporal.serve.settings import DeadLetterSettings


def read_letters(folder):
    """Return the letters of a folder, the oldest first."""
    lines = [line for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def letter(number, raw=b"{}"):
    """Return a letter."""
    return DeadLetter("readings", "device", number, "it is bad", raw)


def test_a_letter_has_the_bytes_its_source_and_the_reason(tmp_path):
    """Bytes that are not text are in base64; a long one is cut, and says how long it was."""
    letters = DeadLetters(DeadLetterSettings(folder=tmp_path / "new", file_bytes=1_000))
    raws = [b'{"a": 1}', b"\xff", b"x" * 600]
    letters.write(DeadLetter("s", None, n, "why", raw) for n, raw in enumerate(raws))
    found = read_letters(tmp_path / "new")
    assert [each.get("text", each.get("base64")) for each in found] == [
        '{"a": 1}',
        "/w==",
        "x" * 500,
    ]
    assert [each.get("bytes") for each in found] == [None, None, 600]
    assert {key: found[0][key] for key in ("stream", "source", "index", "reason")} == {
        "stream": "s", "source": None, "index": 0, "reason": "why"
    }  # fmt: skip
    assert found[0]["time"].endswith("Z")


def test_the_oldest_files_are_dropped(tmp_path):
    """All files together stay below the limit, and the newest letters are there."""
    settings = DeadLetterSettings(folder=tmp_path, bytes=5_000, file_bytes=1_000)
    letters = DeadLetters(settings)
    for number in range(200):
        letters.write([letter(number)])
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 5_000
    kept = [each["index"] for each in read_letters(tmp_path)]
    assert kept == list(range(kept[0], 200))
    assert len(kept) > 20
    assert letters.files_dropped > 5


def test_another_start_goes_on_behind_the_files_that_are_there(tmp_path):
    """It begins a file of its own, counts the others, and leaves foreign files alone."""
    settings = DeadLetterSettings(folder=tmp_path, bytes=2_000, file_bytes=1_000)
    (tmp_path / "notes.jsonl").write_text("{}\n")
    for number in range(30):
        letters = DeadLetters(settings)
        letters.write([letter(number)])
        letters.close()
    (tmp_path / "notes.jsonl").unlink()
    assert read_letters(tmp_path)[-1]["index"] == 29
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2_000


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path):
    """The failure is counted, and letters are written again when the folder is there again."""
    folder = tmp_path / "letters"
    letters = DeadLetters(DeadLetterSettings(folder=folder))
    folder.write_text("no folder")
    letters.write([letter(1)])
    assert (letters.failed, letters.written) == (1, 0)
    folder.unlink()
    letters.write([letter(2)])
    assert read_letters(folder)[0]["index"] == 2


def test_without_a_folder_there_are_none():
    """Nothing is written."""
    letters = DeadLetters(DeadLetterSettings())
    letters.write([letter(1)])
    assert (letters.is_kept, letters.written) == (False, 0)
