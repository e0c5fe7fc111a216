"""Published numbers, by row and column of our tables, and what is known to be wrong with them.

Source: Zong, Wang, Xie and Huang, AAAI 2024 (the DPC paper); its tables 1 to 4 (as
printed; labels tab2 to tab5 of its source), its figure 3 read off the plot, and table 3 of its
appendix. Rows of other methods were copied there from their own
papers. ‡ marks numbers that are not in that paper but in the method's own; they are best epochs on
the test set unless the note says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Numbers = dict[tuple[str, str], str]  # by row and column
Curves = Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]]  # best and last, by column
SYNTHETIC_COLUMNS = (
    "CIFAR-10 sym. 20%",
    "CIFAR-10 sym. 50%",
    "CIFAR-10 sym. 80%",
    "CIFAR-10 asym. 10%",
    "CIFAR-10 asym. 30%",
    "CIFAR-10 asym. 40%",
    "CIFAR-100 sym. 20%",
    "CIFAR-100 sym. 50%",
    "CIFAR-100 sym. 80%",
    "CIFAR-100 asym. 10%",
    "CIFAR-100 asym. 30%",
    "CIFAR-100 asym. 40%",
)
SYNTHETIC_ROWS = {
    "ce": "88.8† 81.7† 76.1† 88.8 81.7 76.1 61.8 37.3 8.8 68.1 53.3 44.5",
    "mixup": "93.3† 83.3† 77.7† 93.3 83.3 77.7 72.4† 57.6† 48.1† 72.4 57.6 48.1",
    "dividemix": "95.7 94.4 92.9 93.8 92.5 91.7 76.9 74.2 59.6 71.6 69.5 55.1",
    "pes": "95.9 95.1 93.1 - - - 77.4 74.3 61.6 - - -",
    "elr_plus": "95.8 94.8 93.3 95.4 94.7 93.0 77.6 73.6 60.8 77.3 74.6 73.2",
    "unicon": "96.0 95.6 93.9 95.3 94.6 94.1 78.9 77.6 63.9 78.2 75.6 74.8",
    "pencil": "92.4 89.1 77.5 93.1 92.9 91.6 69.4 57.5 31.1 76.0 59.3 48.3",
    "jpl": "93.5 90.2 35.7 94.2 92.5 90.7 70.9 67.7 17.8 72.0 68.1 59.5",
    "moit": "94.1 91.1 75.8 94.2 94.1 93.2 75.9 70.1 51.4 77.4 75.1 74.0",
    "mentornet": "91.0‡ - 28.3‡ - - - 73.3‡ - 19.3‡ - - -",
    "d2l": "86.1‡ 67.4‡ 10.0‡ - - - - - - - - -",
    "incv": "89.7‡ 84.8‡ 52.3‡ - - - - - - - - -",
    "ssr": "96.7‡ 96.1‡ 95.6‡ - - 95.5‡ 79.7‡ 77.2‡ 71.9‡ - - -",
    "sat": "94.14‡ - 78.58‡ - - - 75.77‡ - 38.72‡ - - -",
    "promix": "97.7‡ 97.4‡ 95.5‡ - - 96.6‡ 82.6‡ 80.1‡ 69.4‡ - - -",
    "dpc": "96.1 95.2 93.5 95.5 94.5 93.6 79.4 76.5 63.0 79.0 77.6 74.1",
    "dpc*": "96.5 95.9 94.8 95.4 95.3 94.9 81.0 78.5 66.4 80.5 79.7 75.6",
}
SYNTHETIC_NOTE = (
    "Published: table 1 of the DPC paper. † is a copying error there: the symmetric columns of "
    "these rows repeat the asymmetric ones. DPC and DPC* are means of the last 10 epochs over 3 "
    "runs, DivideMix is last (asymmetric: run again by the authors of UniCon), ELR+ and PES are "
    "best epochs on the test set; UniCon is copied from its paper (which epoch is not said), and "
    "run again for table 4 it got 94.2 at best on CIFAR-10 sym. 20%. PENCIL and MOIT+ (called moit "
    "here) are best epochs; JPL fails at 80% in its own paper too. ‡ is from the method's own "
    "paper: the last epoch for SAT, a best one for SSR+ and ProMix; or from a README: MentorNet "
    "(predefined) from its own, D2L and INCV from INCV's, whose symmetric noise always changes a "
    "label. How asymmetric CIFAR-100 "
    "noise was made is not known: the released generator cannot make it; ours moves a class to the "
    "next of its superclass, and with --blocks to the next of five consecutive ones, as in the "
    "code of ELR+ and UniCon."
)

HUMAN_COLUMNS = ("aggre", "rand1", "rand2", "rand3", "worst", "noisy100")
HUMAN_ROWS = {
    "ce": "87.77±0.38 85.02±0.65 86.46±1.79 85.16±0.61 77.69±1.55 55.50±0.66",
    "gce": "87.85±0.70 87.61±0.28 87.70±0.56 87.58±0.29 80.66±0.35 56.73±0.30",
    "coteaching": "91.20±0.13 90.33±0.13 90.30±0.17 90.15±0.18 83.83±0.13 60.37±0.27",
    "pes": "94.66±0.18 95.06±0.15 95.19±0.23 95.22±0.13 92.68±0.22 70.36±0.33",
    "elr_plus": "94.83±0.10 94.43±0.41 94.20±0.24 94.34±0.22 91.09±1.60 66.72±0.07",
    "cores": "- - - - - 61.15±0.73",
    "cores*": "95.25±0.09 94.45±0.14 94.88±0.31 94.74±0.03 91.66±0.09 -",
    "dividemix": "95.01±0.71 95.16±0.19 95.23±0.07 95.21±0.14 92.56±0.42 71.13±0.48",
    "sop_plus": "95.61±0.13 95.28±0.13 95.31±0.10 95.39±0.11 93.24±0.21 67.81±0.23",
    "promix": "97.65‡ 97.39‡ - - 96.34‡ 73.79‡",
    "dpc": "95.77±0.23 95.97±0.07 95.92±0.14 95.90±0.09 93.82±0.31 71.42±0.23",
    "sop_plus with L_edl": "95.87 95.75 95.35 95.65 93.29 68.25",
    "mlnt": "91.37 88.65 88.54 89.13 84.15 58.24",
    "mlnt with L_edl": "91.45 89.37 88.56 89.50 83.99 60.35",
}
HUMAN_NOTE = (
    "Published: table 2 of the DPC paper (SOP with L_edl, MLNT and MLNT with L_edl: table 3 of its "
    "appendix, which does not say which epoch). DPC is the last epoch; the other rows of table 2 "
    "are best epochs on the test set, as the authors of CIFAR-N say. "
    "The row called SOP there is SOP+; the row called CORES is CORES*, but plain CORES on "
    "noisy100. ‡ is from the paper of ProMix."
)

# Vovk, ReScience C, 2026: the same labels, trained anew
REPLICATED_ROWS = {
    "ce": "91.70 90.20 - - 83.91 61.19",
    "dividemix": "95.62 95.72 - - 93.10 70.91",
    "sop_plus": "96.04 95.70 - - 92.89 63.88",
    "elr_plus": "95.32 94.89 - - 91.75 67.87",
}
REPLICATED_NOTE = (
    "Replicated: Vovk, ReScience C, 2026, an independent replication on CIFAR-N (aggre, rand1, "
    "worst, noisy100)."
)

WEB_COLUMNS = ("WebVision top-1", "WebVision top-5", "ILSVRC12 top-1", "ILSVRC12 top-5")
WEB_ROWS = {
    "coteaching": "63.6 85.2 61.5 84.7",
    "elr_plus": "77.8 91.7 70.3 89.8",
    "dividemix": "77.3 91.6 75.2 90.8",
    "unicon": "77.6 93.4 75.3 93.7",
    "d2l": "62.7 84.0 57.8 81.4",
    "mentornet": "63.0 81.4 57.8 79.9",
    "incv": "65.2 85.3 61.6 85.0",
    "ssr": "80.92‡ - - -",
    "dpc": "79.2 93.0 75.8 92.5",
    "dpc*": "81.1 93.5 78.0 93.8",
}
WEB_NOTE = (
    "Published: table 3 of the DPC paper, which does not say whether these are best or last "
    "epochs. D2L, MentorNet (self-paced), Co-teaching and INCV (ICV there) are runs by INCV's "
    "authors. "
    "‡ is SSR+ at second hand."
)

ABLATION_COLUMNS = tuple(c for c in SYNTHETIC_COLUMNS if " sym." in c)
ABLATION_LAST = {
    "DPC": "96.1 95.2 93.5 79.4 76.5 63.0",
    "without L_edl": "96.0 94.7 93.0 78.6 75.1 60.0",
    "without large margin": "96.1 94.8 93.1 77.6 76.0 57.1",
    "without two heads": "96.1 94.9 92.5 79.6 76.1 62.4",
    "unicon": "93.4 94.9 93.7 77.0 75.9 64.1",
    "unicon with L_edl": "93.8 94.8 93.7 77.8 76.0 64.4",
}
ABLATION_BEST = {
    "DPC": "96.3 95.3 93.6 79.9 76.9 63.3",
    "without L_edl": "96.1 94.9 93.3 79.4 75.6 60.3",
    "without large margin": "96.3 95.1 93.3 77.8 76.5 57.4",
    "without two heads": "96.3 95.2 92.8 79.8 76.5 62.8",
    "unicon": "94.2 95.6 94.2 79.0 77.1 65.0",
    "unicon with L_edl": "94.6 95.5 94.2 79.5 77.5 65.4",
}
ABLATION_NOTE = (
    "Published: table 4 of the DPC paper; its last is the mean of the last 10 epochs. What "
    "'without L_edl' means is not defined there; here: softmax and cross-entropy throughout, "
    "margins kept. 'Without large margin' splits by L_edl; 'without two heads' sends both losses "
    "through one head. UniCon was run again for it (table 1 has 96.0 for CIFAR-10 sym. 20%). How "
    "L_edl was put into UniCon is not told there; ours is one reading."
)

# figure 3, read off the plot: (best, last) by value
BETAS, GAMMAS = (0.0, 0.25, 0.5, 0.75, 1.0), (0.0, 5.0, 10.0, 15.0, 20.0)
BETA_CURVES = {
    "CIFAR-10 sym. 50%": ((95.3, 95.2, 95.25, 95.1, 95.35), (94.9, 94.9, 95.1, 95.0, 95.05)),
    "CIFAR-100 sym. 50%": ((75.85, 76.65, 77.1, 76.7, 76.4), (75.35, 76.1, 76.6, 76.1, 76.05)),
}
GAMMA_CURVES = {
    "CIFAR-10 sym. 50%": ((95.0, 95.3, 95.25, 95.3, 95.1), (94.7, 95.1, 95.1, 95.0, 94.85)),
    "CIFAR-100 sym. 50%": ((76.1, 76.8, 77.1, 77.0, 76.75), (75.6, 76.35, 76.6, 76.4, 76.1)),
}
CURVE_NOTE = "Published: figure 3 of the DPC paper, read off the plot."


def numbers(rows: Mapping[str, str], columns: Sequence[str]) -> Numbers:
    """A published table by row and column; what the paper leaves open is left out."""
    return {
        (row, column): value.replace("±", " ± ")
        for row, line in rows.items()
        for column, value in zip(columns, line.split(), strict=True)
        if value != "-"
    }


def curve(curves: Curves, values: Sequence[float], row: str, *, best: bool = False) -> Numbers:
    """A published curve by row and column, its last epochs or its best ones.

    `row` has a place for the value.
    """
    return {
        (row.format(value), column): f"{accuracy:.2f}"
        for column, both in curves.items()
        for value, accuracy in zip(values, both[0 if best else 1], strict=True)
    }
