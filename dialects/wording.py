"""Numbers of things in sentences for people."""


def counted(count: int, one: str, many: str = "") -> str:
    """So many of a thing: ``1 launch``, ``1,200 launches``. many: several of it, by default
    ``one`` with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
