"""The mode verify names each damaged file."""

import json
import pathlib
import shutil

import pytest
from helpers import shared
from helpers.checkpoints import flip_a_bit, save_three_steps

from transformer.errors import UserError
from transformer.tools.verify import verify


@pytest.mark.parametrize("damage", [flip_a_bit, pathlib.Path.unlink])
@pytest.mark.parametrize("name", ["params/_METADATA", "checksums.json"])
def test_verify_names_what_is_damaged(tmp_path, capsys, damage, name):
    copy = shutil.copytree(shared.made_once("three_steps", save_three_steps), tmp_path / "copy")
    verify.verify(None, copy)
    whole = json.loads(capsys.readouterr().out)
    names = ("checkpoints/2", "checkpoints/3", "params/1", "params/2", "params/3", "best/2")
    assert whole == {name: [] for name in names}
    damage(copy / "checkpoints" / "2" / name)
    with pytest.raises(SystemExit) as status:
        verify.verify(None, copy)
    assert status.value.code == 1
    found = json.loads(capsys.readouterr().out)
    [fault] = found.pop("checkpoints/2")
    assert str(copy / "checkpoints" / "2") in fault
    assert name in fault
    assert found == {name: [] for name in whole if name != "checkpoints/2"}
    with pytest.raises(UserError, match="holds no checkpoint"):
        verify.verify(None, tmp_path)
