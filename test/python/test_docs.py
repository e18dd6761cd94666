"""Pages that a command writes are what it would write today."""

from by_path import load

schedules = load("docs/schedules.py")


def test_the_page_on_schedules_is_up_to_date() -> None:
    assert schedules.PAGE.read_text() == schedules.page(), "make docs"
    assert schedules.KERNEL.read_text() == schedules.kernel_file(), "make docs"
