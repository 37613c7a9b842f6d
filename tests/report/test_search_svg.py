from xml.etree import ElementTree

from gradcheck_cli.report.search_svg import search_svg

from .test_search_map import PLACE, one_number, result, two_numbers


def test_a_picture_has_cells_a_witness_and_the_error_along_a_line() -> None:
    for seen in (one_number(), two_numbers()):
        root = ElementTree.fromstring(search_svg(seen, PLACE))
        tags = [one.tag.rpartition("}")[2] for one in root.iter()]
        assert tags.count("circle") == 1
        assert tags.count("rect") > 4  # those of the legend, and cells
        assert "script" not in tags
        (line,) = (one for one in root.iter() if one.tag.endswith("polyline"))
        heights = [float(point.split(",")[1]) for point in line.attrib["points"].split()]
        assert heights[0] < heights[1] < heights[2]


def test_nothing_is_drawn_of_what_was_not_searched() -> None:
    assert search_svg(result(), PLACE) == ""
