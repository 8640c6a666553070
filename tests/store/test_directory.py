"""The data directory: its location, owner and lock."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from penstock.errors import StartError
from penstock.store.directory import SYSTEM, DataDirectory, default_directory
from tests.support.open_stores import NOBODY, unprivileged


def test_created_directory_is_private_to_the_owner(tmp_path: Path) -> None:
    place = tmp_path / "some" / "where"
    directory = DataDirectory(place)
    directory.lock()
    assert place.stat().st_mode & 0o777 == 0o700
    assert (place / "lock").read_text() == str(os.getpid())
    directory.unlock()
    directory.unlock()


def test_directory_that_exists_keeps_the_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    directory = DataDirectory(tmp_path)
    directory.lock()
    assert tmp_path.stat().st_mode & 0o777 == 0o750
    directory.unlock()


def test_second_broker_is_refused_with_the_owner_of_the_directory(tmp_path: Path) -> None:
    first, second = DataDirectory(tmp_path), DataDirectory(tmp_path)
    first.lock()
    expected = f"data directory '{tmp_path}' is in use by another broker (process {os.getpid()})"
    for take in (second.lock, second.hold):
        with pytest.raises(StartError) as raised:
            take()
        assert str(raised.value) == expected
    first.unlock()
    second.hold()
    with pytest.raises(StartError):
        first.lock()
    second.unlock()


def test_directory_opened_for_reading_is_not_written(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.hold()
    directory.unlock()
    assert list(tmp_path.iterdir()) == []


def test_directory_that_may_not_be_written_is_refused(open_folder: Path) -> None:
    open_folder.chmod(0o500)
    with unprivileged(open_folder):
        for place, said in (
            (
                open_folder,
                f"cannot use data directory '{open_folder}': it may not be written by this user; "
                "give its owner the right to, or name another with --data",
            ),
            (open_folder / "below", f"cannot use data directory '{open_folder}/below': Permission denied"),
        ):
            with pytest.raises(StartError) as raised:
                DataDirectory(place).lock()
            assert str(raised.value) == said


def test_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match=r"^cannot use data directory '.*/file': File exists$"):
        DataDirectory(tmp_path / "file").lock()
    with pytest.raises(StartError, match=r"^cannot use data directory '.*/file': Not a directory$"):
        DataDirectory(tmp_path / "file").hold()


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has a folder of its own for this")
@pytest.mark.parametrize(
    ("data_home", "expected"),
    [
        ("/srv/data", "/srv/data/penstock"),
        ("relative/is-ignored", "~/.local/share/penstock"),
        ("", "~/.local/share/penstock"),
    ],
)
def test_users_default_directory_is_in_the_folder_for_data(
    monkeypatch: pytest.MonkeyPatch, open_folder: Path, data_home: str, expected: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", data_home)
    monkeypatch.setenv("HOME", "/home/somebody")
    with unprivileged(open_folder):
        assert default_directory() == Path(expected.replace("~", "/home/somebody"))


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has a folder of its own for this")
@pytest.mark.skipif(os.geteuid() != 0, reason="This is about root.")
def test_roots_default_directory_is_the_systems() -> None:
    assert default_directory() == SYSTEM == Path("/var/lib/penstock")


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has a folder of its own for this")
@pytest.mark.skipif(os.geteuid() != 0, reason="Only root may be somebody who has no home.")
def test_user_without_a_home_is_asked_to_name_a_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    stranger = NOBODY - 7
    os.setresuid(stranger, stranger, 0)
    try:
        with pytest.raises(StartError, match=r"^no folder for data is known: this user has no home"):
            default_directory()
    finally:
        os.setresuid(0, 0, 0)
