"""A compiled network as one page: where each layer runs, what it costs, what would help.

The page holds everything it shows and needs no network. The data are those of the profile, of the
placements and of the kept IR; nothing is simulated for the page alone. Plots are drawn by Vega
(Satyanarayan et al., "Vega-Lite: A Grammar of Interactive Graphics", 2017), which the package
vl-convert-python brings along, as SVG with roles and labels for screen readers.
"""

from vtac.tools.report_page.contents import Contents, contents_of
from vtac.tools.report_page.page import html_of, report_html

__all__ = ["Contents", "contents_of", "html_of", "report_html"]
