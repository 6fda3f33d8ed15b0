"""Names that look alike, and words of several scripts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter
from sudare.privacy.confusable_names import check_scripts, look_alike, same_letters, skeleton


class TestNames:
    @pytest.mark.parametrize(
        "other",
        [
            "Patients",
            "ＰＡＴＩＥＮＴＳ",
            " pa tients".replace("a t", "at"),
            "pat\u200dients",
            "patients\ufe0f",
            "раtіеnтѕ",
            "patıents",
        ],
    )
    def test_look_alike(self, other: str) -> None:
        assert look_alike("patients", other)
        assert look_alike(other, "patients")

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("COPA", "СОРА"),
            ("Ill", "lll"),
            ("ward 10", "ward lO"),
            ("modem", "modern"),
            ("AKT", "ΑΚΤ"),
            ("WARD", "ᎳᎪᎡᎠ"),
        ],
    )
    def test_whole_names_of_other_scripts(self, one: str, other: str) -> None:
        assert look_alike(one, other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [("patients", "patient"), ("患者", "患音"), ("été", "ete"), ("2026-01", "2026-02"), ("ward 2", "ward 3")],
    )
    def test_different(self, one: str, other: str) -> None:
        assert not look_alike(one, other)

    @given(st.text(max_size=12))
    def test_every_name_has_one_form(self, text: str) -> None:
        assert same_letters(same_letters(text)) == same_letters(text)
        assert look_alike(text, text.upper().lower()) or text.upper().lower().casefold() != text.casefold()
        assert skeleton(text) == skeleton(f" {text} ")

    @pytest.mark.parametrize(
        "name",
        [
            "patients 2026",
            "患者データ2026",
            "コーホートA",
            "환자 data",
            "佐々木 ward",
            "β-blocker users",
            "пациенты 1",
            "😀",
            "Ärzte",
        ],
    )
    def test_scripts_that_are_written_together(self, name: str) -> None:
        check_scripts("a name", name)

    @pytest.mark.parametrize("name", ["раtients", "pαtients", "wаrd 3", "患者и"])
    def test_scripts_that_are_not(self, name: str) -> None:
        with pytest.raises(InvalidParameter) as caught:
            check_scripts("a name", name)
        assert caught.value.problem.startswith("A word of a name mixes letters of ")
        assert caught.value.remedy == "Write every word in one script, so that no two names look alike."
