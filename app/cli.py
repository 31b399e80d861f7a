"""Command line: ``headroom``; 0 on success, 2 on bad input with one line per problem on stderr, JSON alone on stdout.

Every command imports what it needs when it runs, so that ``headroom --help`` answers at once.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from estimator.scenario.problems import InputProblems

app = typer.Typer(
    name="headroom",
    help="How fast a training step should be, how fast it is, and where the difference goes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

BAD_INPUT = 2
OWN_ERROR = 70
"""As EX_SOFTWARE of sysexits.h."""

NOT_STORED = 74
"""As EX_IOERR of sysexits.h: a disk or the database takes nothing."""

AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document on stdout.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Data folder. [default: $HEADROOM_DATA, or ~/.local/share/headroom]", show_default=False
    ),
]
Calibrations = Annotated[
    list[Path] | None,
    typer.Option(
        "--calibration", metavar="FILE", help="Measured efficiencies to predict with; one for each device.",
        show_default=False,
    ),
]  # fmt: skip
PlanOfList = Annotated[
    list[str] | None,
    typer.Option(
        "--plan", metavar="KEY=VALUE", show_default=False,
        help="Lay op lists of one rank out: dp, sharding, bucket_bytes, tp, pp, schedule, virtual_stages,"
        " micro_batches.",
    ),
]  # fmt: skip
SplitOfList = Annotated[
    list[str] | None,
    typer.Option(
        "--split", metavar="NAME=column|row", show_default=False,
        help="How tp splits linears. [default: as their names propose]",
    ),
]  # fmt: skip


def main() -> None:
    """Run the command line and exit with its status."""
    # Or the collector looks dozens of times through what is imported, which stays: a third of the time to start
    gc.set_threshold(50_000, 20, 100)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit status instead of exiting."""
    try:
        status = app(arguments, standalone_mode=False, prog_name="headroom")
    except InputProblems as error:
        for problem in error.problems:
            print(f"headroom: {problem}", file=sys.stderr)
        return BAD_INPUT
    except TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error)
            return BAD_INPUT
        message = " ".join(error.format_message().split()).rstrip(".")
        end = "" if message.endswith("?") else "."
        # Wrong usage of a command knows which one it was.
        command = getattr(getattr(error, "ctx", None), "command_path", "headroom")
        if command.endswith(" trace") and (option := getattr(error, "option_name", "")):
            end += f" What the program itself takes stands behind --: headroom trace SCRIPT.py -- {option}."
        print(f"headroom: {message}{end} Run '{command} --help' for what there is.", file=sys.stderr)
        return BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except Exception as error:
        from app.storage import trouble_of

        trouble = trouble_of(error)
        if trouble:
            print(f"headroom: {trouble}", file=sys.stderr)
            return NOT_STORED
        print(f"headroom: this is an error of Headroom's own; {_trace_kept()}", file=sys.stderr)
        return OWN_ERROR
    return status if isinstance(status, int) else 0


def _trace_kept() -> str:
    """Write the present exception's trace to a file, and say where."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile("w", prefix="headroom-", suffix=".txt", delete=False) as file:
            file.write(traceback.format_exc())
    except OSError as error:
        return f"its trace could not be written: {error.strerror or error}."
    return f"please report it with {file.name}, which has the trace."


@app.command()
def serve(
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on; beyond loopback HEADROOM_TOKEN is needed. [default: 127.0.0.1]"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0: any. [default: 8000]")
    ] = None,
    data: Data = None,
    calibration: Calibrations = None,
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token",
            help="Let everybody on this machine in, even where others use it. [default: $HEADROOM_NO_TOKEN]",
        ),
    ] = False,
) -> int:
    """Start the dashboard and print its URL."""
    from app.commands.serve import serve as command

    return command(
        {
            "host": host,
            "port": port,
            "data": data,
            "no_token": no_token or None,
            "calibration": tuple(calibration) if calibration else None,
        }
    )


@app.command()
def estimate(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            metavar="SCENARIO.json|OPS.json",
            help="What to predict: a scenario, or the op list of a traced program; may be left out with --hf.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    data: Data = None,
    hf: Annotated[
        Path | None,
        typer.Option(
            "--hf",
            metavar="CONFIG.json",
            help="Take the model from a Hugging Face config.json; alone: on one node of H200 under FSDP.",
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write every op of one layer, embedding and head: .csv, .parquet, .xlsx."),
    ] = None,
    chip: Annotated[
        str, typer.Option(metavar="KEY", help="Price an op list on this chip. [default: the one that it names]")
    ] = "",
    plan: PlanOfList = None,
    split: SplitOfList = None,
    calibration: Calibrations = None,
) -> int:
    """Predict time and memory of one training step."""
    from app.commands.estimate import estimate as command

    return command(scenario, as_json, data, hf, table, chip, calibration, plan or (), split or ())


@app.command()
def trace(
    program: Annotated[
        str,
        typer.Argument(metavar="SCRIPT.py|MODULE:FACTORY", help="What to run, unmodified.", show_default=False),
    ] = "",
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGS]", help="What the program is given.", show_default=False),
    ] = None,
    as_module: Annotated[
        bool, typer.Option("-m", help="The program is named as a module, as python -m runs it.")
    ] = False,
    hf: Annotated[
        Path | None,
        typer.Option("--hf", metavar="CONFIG.json", help="A model of transformers, which must be installed."),
    ] = None,
    world_size: Annotated[
        int | None, typer.Option(metavar="N", help="Ranks, as torchrun tells of them. [default: none]")
    ] = None,
    rank: Annotated[int, typer.Option(metavar="R", help="Which of them it is.")] = 0,
    chip: Annotated[str, typer.Option(metavar="KEY", help="Which GPU torch.cuda tells of.")] = "h100-sxm",
    steps: Annotated[int, typer.Option(metavar="K", help="Optimizer steps to run; the last is recorded.")] = 2,
    batch: Annotated[int, typer.Option(metavar="N", help="Of --hf: samples.")] = 1,
    seq: Annotated[int, typer.Option(metavar="N", help="Of --hf: tokens of a sample.")] = 1024,
    attention: Annotated[str, typer.Option(metavar="NAME", help="Of --hf: sdpa or eager.")] = "sdpa",
    precision: Annotated[
        str, typer.Option(metavar="NAME", help="Without a script: bf16, bf16-amp, fp16-amp, fp32 or tf32.")
    ] = "bf16",
    optimizer: Annotated[
        str, typer.Option(metavar="NAME", help="Without a script: adamw, adamw-fused, adam, sgd or sgd-momentum.")
    ] = "adamw",
    checkpointing: Annotated[bool, typer.Option("--checkpointing", help="Of --hf: recompute its blocks.")] = False,
    compile_: Annotated[bool, typer.Option("--compile", help="Without a script: compile the module.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="OPS.json", help="Where the op list goes. [default: nowhere]")
    ] = None,
    calibration: Calibrations = None,
    as_json: AsJson = False,
    data: Data = None,
) -> int:
    """Run a training program on fake devices, without a GPU, and predict its step."""
    from app.commands.tracing import trace as command

    values = {
        "--hf": hf, "--world-size": world_size, "--rank": rank, "--chip": chip, "--steps": steps, "--batch": batch,
        "--seq": seq, "--attention": attention, "--precision": precision, "--optimizer": optimizer,
    }  # fmt: skip
    flags = [word for name, value in values.items() if value is not None for word in (name, str(value))]
    switches = (("-m", as_module), ("--checkpointing", checkpointing), ("--compile", compile_))
    flags += [name for name, wanted in switches if wanted]
    return command(program, flags, arguments or [], out, as_json, data, calibration)


@app.command()
def validate(
    rows: Annotated[
        Path, typer.Argument(metavar="ROWS", help="Table of measured runs, with a header: .csv, .parquet, .xlsx.")
    ],
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PREDICTED", help="Write every row with its prediction: .csv, .parquet, .xlsx."),
    ] = None,
    calibration: Calibrations = None,
) -> int:
    """Predict and score a table of measured runs."""
    from app.commands.validate import validate as command

    return command(rows, as_json, out, calibration)


@app.command()
def predict(
    series: Annotated[
        Path | None,
        typer.Argument(metavar="LIST.json", help="Steps: name and scenario of each. [default: the reference series]"),
    ] = None,
    ranks: Annotated[int, typer.Option(metavar="N", help="GPUs of the reference series, or of models by config.")] = 1,
    chip: Annotated[str, typer.Option(metavar="KEY", help="What models by config are traced for.")] = "h200-sxm",
    calibration: Calibrations = None,
    results: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where the series is measured; predictions go there too.")
    ] = None,
    plan: PlanOfList = None,
    split: SplitOfList = None,
    as_json: AsJson = False,
) -> int:
    """Predict the steps of a series before they are measured, and set measured ones beside them."""
    from app.commands.predict import predict as command

    return command(series, ranks, chip, calibration, results, as_json, plan or (), split or ())


@app.command()
def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.json", help="Scenario without a plan, limits, objective.")],
    as_json: AsJson = False,
    wide: Annotated[bool, typer.Option("--wide", help="Print all columns, however long the lines.")] = False,
    calibration: Calibrations = None,
    data: Data = None,
) -> int:
    """Try all plans for a model on a cluster under limits."""
    from app.commands.sweep import sweep as command

    return command(spec, as_json, data, wide, calibration)


@app.command()
def catalog(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="[KIND]", help="models, chips or links; without it, all.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List the names that a scenario may give for model, chip, link and network."""
    from app.commands.catalog import catalog as command

    return command(kind, as_json)


@app.command(name="import")
def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Profiles, logs, results or text tables.")],
    as_json: AsJson = False,
    ops: Annotated[
        Path | None, typer.Option("--ops", metavar="OPS.json", help="Write the op list of the one profile here.")
    ] = None,
) -> int:
    """Read profiles, logs or tables into measurements."""
    from app.commands.importing import import_files as command

    return command(files, as_json, ops)


@app.command()
def calibrate(
    measurements: Annotated[
        list[Path],
        typer.Argument(
            metavar="MEASUREMENT...",
            help="Results of probes and collectives, profiles with shapes, nccl-tests, or folders of them.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the calibration goes, as JSON. [default: nowhere]")
    ] = None,
    name: Annotated[str, typer.Option(metavar="TEXT", help="Name for people. [default: the device and its host]")] = "",
    as_json: AsJson = False,
) -> int:
    """Read off measurements what a device and its host reach, for --calibration."""
    from app.commands.calibrate import calibrate as command

    return command(measurements, out, name, as_json)


@app.command(name="run")
def run_(
    job: Annotated[Path, typer.Argument(metavar="JOB.json", help="What to measure and how often.")],
    as_json: AsJson = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the exact request and start nothing.")] = False,
    data: Data = None,
) -> int:
    """Measure a run through a backend."""
    from app.commands.running import run as command

    return command(job, as_json, dry_run, data)


@app.command()
def study(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Which study; without it, all are listed.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change an input; may be repeated.")
    ] = None,
    as_json: AsJson = False,
    every: Annotated[bool, typer.Option("--all", help="Print every figure, not a line for each group.")] = False,
) -> int:
    """Reproduce a reference study."""
    from app.commands.study import study as command

    return command(name, settings or [], as_json, every)
