"""The dialect ``vtac``: what all levels share. A large constant, by reference.

Weights never travel through the text of the IR. ``#vtac.resource<"conv1.w", "9f86d081884c7d65">``
names an array of the resource table (``vtac.dialects.context``) and carries a digest of its bytes.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

DIGEST_LENGTH = 16
"""Hexadecimal digits of SHA-256 that a reference carries."""


@irdl_attr_definition
class ResourceAttr(ParametrizedAttribute):
    """``#vtac.resource<"name", "digest">``: an array outside the text."""

    name = "vtac.resource"

    key: StringAttr
    digest: StringAttr

    def __init__(self, key: str | StringAttr, digest: str | StringAttr):
        super().__init__(
            StringAttr(key) if isinstance(key, str) else key,
            StringAttr(digest) if isinstance(digest, str) else digest,
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse ``<"name", "digest">``."""
        with parser.in_angle_brackets():
            key = parser.parse_str_literal()
            parser.parse_punctuation(",")
            return StringAttr(key), StringAttr(parser.parse_str_literal())

    def print_parameters(self, printer: Printer) -> None:
        """Print ``<"name", "digest">``."""
        with printer.in_angle_brackets():
            printer.print_string_literal(self.key.data)
            printer.print_string(", ")
            printer.print_string_literal(self.digest.data)

    def verify(self) -> None:
        """The digest is lower-case hexadecimal of a fixed length."""
        digits = self.digest.data
        if len(digits) != DIGEST_LENGTH or set(digits) - set("0123456789abcdef"):
            raise VerifyException(
                f"digest of resource '{self.key.data}' must be {DIGEST_LENGTH} hexadecimal digits,"
                f" not '{digits}'"
            )


Vtac = Dialect("vtac", [], [ResourceAttr])
