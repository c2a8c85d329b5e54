"""The one error that users see: what is wrong, and what to do about it."""


class SoftscopeError(Exception):
    """`what` says what is wrong (file, tensor, expected, found); `hint` says what to do. Both are one line."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}. {self.hint}" if self.hint else self.what
