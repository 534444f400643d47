"""What tools/benchmark-docs makes of one run: its tables, as `ferry bench` prints them, from its JSON.

SECTIONS has a function for each tool. A missing key is a KeyError.
"""

import textwrap

WIDTH = 120

# Numbers as ferry/cli/common/text.cc and bench/report/table.cc write them.

def three_digits(value):
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.{1 if value >= 9.995 else 2}f}"


def time_text(ns):
    for unit in ("ns", "us", "ms", "s"):
        if ns < 999.5 or unit == "s":
            return f"{three_digits(ns)} {unit}"
        ns /= 1000


def size_text(size):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.{0 if size == int(size) else 1}f} {unit}"
        size /= 1024


def ratio_number(value):
    size = abs(value)
    return f"{value:.{2 if size >= 0.1 or size == 0 else 3 if size >= 0.01 else 4}f}"


def ms_text(seconds):
    return f"{seconds * 1e3:.2f} ms"


def range_text(estimate, text):
    if "low" in estimate:
        return f"{text(estimate['low'])}..{text(estimate['high'])}"
    return f"min {text(estimate['min'])}, max {text(estimate['max'])}"


def ratio_text(estimate):
    if estimate["repetitions"] < 2:
        return ratio_number(estimate["median"])
    return f"{ratio_number(estimate['median'])} ({range_text(estimate, ratio_number)})"


def short_ratio(estimate):
    median = ratio_number(estimate["median"])
    if "low" not in estimate:
        return median
    return f"{median} ±{50 * (estimate['high'] - estimate['low']) / estimate['median']:.0f}%"


def fact_text(unit, value):
    if unit == "ns":
        return time_text(value)
    if unit == "count":
        return f"{value:.3g}"
    if unit == "calls/s":
        return f"{value:.0f}/s"
    if unit == "GB/s":
        return f"{value:.2f} GB/s"
    return f"{value:.{3 if 0 < value < 0.1 else 2}f}"


# Text.

def table(head, rows):
    """Columns lined up, the first to the left; an empty row is a rule. Nothing of no rows."""
    if not any(rows):
        return ""
    widths = [max(len(row[i]) for row in [head, *rows] if len(row) > i) for i in range(len(head))]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))

    def line(row):
        cells = [cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        return "  ".join(cells).rstrip()

    return "\n".join([line(head), rule, *(line(row) if row else rule for row in rows)]) + "\n"


def code(text):
    return f"```\n{text.rstrip()}\n```\n" if text else ""


def paragraph(text):
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def bullet(text):
    return textwrap.fill(text, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False) + "\n"


def joined(blocks):
    return "\n".join(block for block in blocks if block)


# Suites of rounds: transfer, tensor, message, grpc.

def variants_table(title, run, text):
    """A row for each variant that was measured, a rule between those of different owners."""
    rows, last = [], None
    for variant in run["variants"]:
        cells = {cell["bytes"]: cell for cell in variant["results"]}
        if not cells:
            continue
        if last not in (None, variant["owner"]):
            rows.append([])
        last = variant["owner"]
        rows.append([variant["title"], *(text(cells[size]) if size in cells else "-" for size in run["sizes"])])
    return table([title, *map(size_text, run["sizes"])], rows)


def time_cell(cell):
    spread = f" ±{100 * cell['spread_ns'] / cell['median_ns']:.0f}%" if "spread_ns" in cell else ""
    return time_text(cell["median_ns"]) + spread


def cpu_cell(cell):
    return f"{cell['cpu_s_per_gb']:.{3 if cell['cpu_s_per_gb'] < 10 else 0}f}"


def ratios_table(run):
    titles = {variant["id"]: variant["title"] for variant in run["variants"]}
    pairs = {}
    for ratio in run["ratios"]:
        pairs.setdefault((ratio["ours"], ratio["other"]), {})[ratio["bytes"]] = ratio
    rows = [[f"{titles.get(ours, ours)} / {titles.get(other, other)}",
             *(short_ratio(sizes[size]) if size in sizes else "-" for size in run["sizes"])]
            for (ours, other), sizes in pairs.items()]
    return table(["time, ours / theirs (± 95 %)", *map(size_text, run["sizes"])], rows)


def facts_table(facts):
    rows = []
    for fact in facts:
        def text(value, unit=fact["unit"]):
            return fact_text(unit, value)
        bound = text(fact["at_most"]) if "at_most" in fact else "-"
        rows.append([fact["sentence"], text(fact["median"]), range_text(fact, text), bound, fact.get("verdict", "-")])
    return table(["beside the rounds", "median", "95 %", "at most", "verdict"], rows)


def messages_table(counts):
    return table(["messages by size, from", "number"],
                 [[size_text(count["from_bytes"]), str(count["messages"])] for count in counts])


def target_list(targets):
    """One item for each target: what it says, and the sizes at which it is met, open and missed."""
    by_id = {}
    for target in targets:
        by_id.setdefault((target["target"], target["sentence"]), []).append(target)
    items = ""
    for (name, sentence), each in by_id.items():
        met = {one["bytes"] for one in each if one["verdict"] == "met"}

        def place(one, met=met):
            """A size, and against whom where it is met against another."""
            mixed = one["verdict"] != "met" and one["bytes"] in met
            return size_text(one["bytes"]) + (f" against {one['other']}" if mixed else "")

        parts = []
        for verdict, word in (("met", "met"), ("open", "open"), ("MISSED", "**missed**")):
            sizes = dict.fromkeys(place(one) for one in each if one["verdict"] == verdict)
            if sizes:
                parts.append(f"{word} at {', '.join(sizes)}")
        items += bullet(f"`{name}`: {sentence}: {'; '.join(parts)}.")
    return items


def not_met_table(targets):
    units = {"microseconds": " us", "microseconds more": " us more"}
    rows = [[target["target"], size_text(target["bytes"]), target["other"], ratio_text(target),
             f"<= {ratio_number(target['at_most'])}{units.get(target['metric'], '')}", target["verdict"]]
            for target in targets if target["verdict"] != "met"]
    return table(["not met", "size", "against", "ratio (95 %)", "bound", "verdict"], rows)


def checked_text(run):
    checked, mebi = run["checked_bytes"], 1 << 20
    return f"{size_text(checked if checked < mebi else checked // mebi * mebi)} checked byte by byte, {run['wrong']} wrong"


def rounds_section(run):
    titled = f"{run['round']}: {checked_text(run)}, {run['seconds']:.0f} s."
    notes = list(run["notes"])
    if run["not_judged"]:
        names = ", ".join(f"`{line.split(':')[0]}`" for line in run["not_judged"])
        notes.append(f"not judged, since not both sides were measured: {names}")
    return joined([
        paragraph(titled),
        code(variants_table("time of a round", run, time_cell)),
        code(ratios_table(run)),
        code(variants_table("CPU s/GB", run, cpu_cell)),
        code(facts_table(run["facts"])),
        code(messages_table(run["messages_by_size"])),
        target_list(run["targets"]),
        code(not_met_table(run["targets"])),
        "".join(map(bullet, notes)),
    ])


# ferry bench ps.

def ps_figures_table(figures):
    rows = []
    for figure in figures:
        measured = "ratio" in figure
        rows.append([
            figure["what"],
            f"{figure['ours_estimate']['median']:.4g} {figure['unit']}" if measured else "-",
            f"{figure['other_estimate']['median']:.4g}" if measured and figure["compared"] else "-",
            ratio_text(figure["ratio"]) if measured else "-",
            f"{'<=' if figure['is_at_most'] else '>='} {figure['bound']:.4g}",
            figure["verdict"]])
    return table(["what", "ours", "other", "ratio (95 %)", "target", "verdict"], rows)


def ps_speeds_table(speeds):
    return table(["steps", "block", "workers", "gradients"],
                 [[speed["steps"], size_text(speed["block_bytes"]), str(speed["workers"]),
                   f"{speed['gb_per_second']:.3g} GB/s"] for speed in speeds])


def ps_trainings_table(trainings):
    rows = []
    for one in trainings:
        alone = one["workers"] == 0
        rows.append([one["training"], "-" if alone else str(one["workers"]), f"{one['images_per_second']:.4g}",
                     f"{one['step_seconds'] * 1e3:.3g} ms", "-" if alone else f"{one['communicating'] * 100:.0f} %",
                     f"{one['of_alone']:.2f}", f"{one['loss']:.5f}", f"{one['accuracy']:.3f}"])
    return table(["training", "workers", "images/s", "step", "communicating", "of alone", "loss", "accuracy"], rows)


def ps_section(run):
    skipped = "".join(bullet(f"not measured: {figure['what']}: {figure['skipped']}")
                      for figure in run["figures"] if figure["skipped"])
    return joined([code(ps_figures_table(run["figures"])), code(ps_speeds_table(run["speeds"])),
                   code(ps_trainings_table(run["trainings"])), skipped])


# ferry bench models.

def share_text(registration, key):
    share = (registration or {}).get(key)
    return "-" if share is None else f"{100 * share:.1f} %"


def path_row(model, path):
    if "step" not in path:
        return [path["transport"], path["failed"] or "not measured"]
    step, sent = path["step"], path["sent"]

    def times(bound):
        return f"{step['median'] / bound:.2f}" if bound > 0 else "-"

    return [path["transport"], ms_text(step["median"]), range_text(step, lambda seconds: f"{seconds * 1e3:.2f}"),
            f"{1 / step['median']:.2f}", f"{path['times_grpc']['median']:.2f}x" if "times_grpc" in path else "-",
            times(model["emulated_seconds"]), times(model["memory_bound_seconds"]), size_text(sent["bytes"]),
            str(sent["tensors"]), str(sent["in_place"]), str(sent["copies"]),
            share_text(path["registration"], "registered_share"), share_text(path["registration"], "registering_share")]


def model_block(model):
    text = f"{model['model']}: {model['variables']} variables, {model['variable_bytes'] / (1 << 20):.2f} MiB"
    if model["paper_mib"] > 0:
        text += f" (the paper: {model['paper_variables']}, {model['paper_mib']:.2f})"
    text += f"; {model['crossings']} crossings, planned in {ms_text(model['plan_seconds'])}\n"
    if model["emulated_seconds"] > 0:
        source = f"estimated by operations from {model['like']}'s" if model["estimated"] else \
            "as paper 000 measured it on a GPU"
        text += f"computation emulated: {ms_text(model['emulated_seconds'])} a step, asleep ({source}); " \
            "gradients written, updates real\n"
    else:
        text += "computation real, on this machine's cores\n"
    if model["memory_bound_seconds"] > 0:
        text += f"the memory alone needs {ms_text(model['memory_bound_seconds'])} for a step\n"
    return text + table(
        ["transport", "a step", "95 % (ms)", "steps/s", "to gRPC", "/ computation", "/ memory", "sent", "tensors",
         "in place", "copies", "registered", "registering"], [path_row(model, path) for path in model["paths"]])


def model_verdicts_table(verdicts):
    rows = [[verdict["target"], verdict["model"], verdict["other"], ratio_text(verdict["ratio"]),
             f"<= {verdict['bound']:.2f}",
             f"{verdict['of_computation']['median']:.2f}" if "of_computation" in verdict else "-", verdict["outcome"]]
            for verdict in verdicts]
    return table(["target", "model", "against", "time, ratio (95 %)", "bound", "/ computation", "verdict"], rows)


def runtime_table(facts):
    def three(value):
        return f"{value:.3g}"
    return table(["the runtime itself", "median", "95 %", "at most", "verdict"],
                 [[fact["sentence"], f"{three(fact['median'])} {fact['unit']}", range_text(fact, three),
                   three(fact["bound"]), fact["outcome"]] for fact in facts])


def models_section(run):
    sentences = {verdict["target"]: verdict["sentence"] for verdict in run.get("verdicts", [])}
    return joined([
        paragraph(f"{run['workers']} workers and {run['ps']} servers, batch {run['batch']}, memory copies at "
                  f"{run['memory_bytes_per_second'] / 1e9:.1f} GB/s."),
        *(code(model_block(model)) for model in run.get("models", [])),
        "".join(bullet(f"`{target}`: {sentence}") for target, sentence in sentences.items()),
        code(model_verdicts_table(run.get("verdicts", []))), code(runtime_table(run.get("runtime", [])))])


def scaling_section(run):
    rows = []
    for point in run["points"]:
        judged = point["bound"] > 0
        rows.append([point["model"], point["transport"], str(point["workers"]),
                     point["failed"] or ms_text(point["step"]["median"]), ratio_text(point["of_linear"]),
                     f">= {point['bound']:.2f}" if judged else "-", point["outcome"] if judged else "-"])
    return joined([
        paragraph(f"As many servers as workers, batch {run['batch']}, memory copies at "
                  f"{run['memory_bytes_per_second'] / 1e9:.1f} GB/s; linear is so many times one worker alone."),
        code(table(["model", "transport", "workers, and servers", "a step", "of linear (95 %)", "bound", "verdict"],
                   rows))])


SECTIONS = {
    "ferry bench transfer": rounds_section,
    "ferry bench tensor": rounds_section,
    "ferry bench message": rounds_section,
    "ferry bench grpc": rounds_section,
    "ferry bench ps": ps_section,
    "ferry bench models": models_section,
    "ferry bench models --scaling": scaling_section,
}
