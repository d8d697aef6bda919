"""The ladder as JUnit XML, which every continuous-integration service can show: a suite a pair, a test case a rung."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as ET

from fluxctl.parity.comparison import Comparison, title_of
from fluxctl.parity.registry import STAGE_TITLES
from fluxctl.parity.result import RungResult, Status

_FORBIDDEN: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 cannot hold


def junit(comparisons: Sequence[Comparison]) -> str:
    """Render comparisons as one XML document."""
    root = ET.Element("testsuites", name="fluxctl parity")
    for comparison in comparisons:
        _suite(root, comparison)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, comparison: Comparison) -> None:
    pair, results = comparison.pair, comparison.ladder.results
    broken = [(admission.label, check) for admission in comparison.admissions for check in admission.broken]
    num_failed = sum(result.finding.status is Status.FAIL for result in results) + len(broken)
    num_skipped = sum(result.finding.status in (Status.SKIP, Status.INCONCLUSIVE) for result in results)
    name = f"{pair.baseline}: {pair.left.id} and {pair.right.id}"
    suite = ET.SubElement(root, "testsuite", name=_clean(name), tests=str(len(results) + len(broken)))
    suite.attrib |= {"failures": str(num_failed), "errors": "0", "skipped": str(num_skipped)}
    for label, check in broken:
        case = ET.SubElement(suite, "testcase", classname=_clean(f"{pair.baseline}.admission"), name=check.name)
        ET.SubElement(case, "failure", message=_clean(f"{label} run: {check.message}"), type="INADMISSIBLE")
    for result in results:
        _case(suite, pair.baseline, result)


def _case(suite: ET.Element, baseline: str, result: RungResult) -> None:
    rung, finding = result.rung, result.finding
    stage = f"stage {rung.stage} {STAGE_TITLES[rung.stage]}"
    case = ET.SubElement(suite, "testcase", classname=_clean(f"{baseline}.{stage}"), name=f"{rung.id} {title_of(rung)}")
    value = "" if finding.value is None else f"{finding.value:.6g}"
    if finding.status is Status.FAIL:
        cause = "" if result.cause is None else result.cause.value
        failure = ET.SubElement(case, "failure", message=_clean(finding.message), type=f"{rung.tier.value} {cause}")
        failure.text = _clean(f"{rung.broken}\nvalue {value}, threshold {finding.threshold}, n {finding.n}")
    elif finding.status in (Status.SKIP, Status.INCONCLUSIVE):
        ET.SubElement(case, "skipped", message=_clean(f"{finding.status.value}: {finding.message}"))
    else:
        told = f"{finding.status.value}: {finding.message} (value {value}, threshold {finding.threshold})"
        ET.SubElement(case, "system-out").text = _clean(told)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
