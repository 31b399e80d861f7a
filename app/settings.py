"""Settings: where data lies, where the server listens, and its limits; from arguments and HEADROOM_* variables."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from estimator.scenario.codec import decode
from estimator.scenario.problems import InputProblems, Problem
from runners.placement import Placement
from runners.placement import problems as placement_problems

ROOT = Path(__file__).parent.parent
MIB = 1024**2
SHORTEST_TOKEN = 16


_SECRET = f"a secret of at least {SHORTEST_TOKEN} characters, as `openssl rand -hex 24` makes"


def default_data_folder() -> Path:
    """Return the user's data folder by the XDG base directory rule: $XDG_DATA_HOME/headroom or ~/.local/share/headroom.

    Source: https://specifications.freedesktop.org/basedir-spec/latest/
    """
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "headroom"


class Settings(BaseSettings):
    """What a deployment may choose; each field reads HEADROOM_<NAME> where no argument is given."""

    model_config = SettingsConfigDict(env_prefix="HEADROOM_", frozen=True, extra="forbid")

    data: Path = Field(default_factory=default_data_folder, description="job folders, uploads, index and caches")
    database_url: str = Field("", description="index database; empty: SQLite in the data folder")
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0: any free one")
    token: SecretStr = Field(SecretStr(""), description="secret that callers must know; required beyond loopback")
    no_token: bool = Field(False, description="let everybody on this machine in, even where others use it")
    run_slots: int = Field(1, ge=1, le=64, description="measured runs on this machine at the same time")
    run_limit_s: float = Field(
        86_400.0, gt=0, le=30 * 86_400, description="wall-clock bound of a run on this machine that names none"
    )
    placement: dict[str, Any] = Field(
        default_factory=dict,
        description="JSON of what Slurm is asked where a run says nothing: partition, account …; its cpus_per_process "
        "holds on this machine too",
    )
    json_limit_bytes: int = Field(2 * MIB, ge=1024, description="largest JSON body")
    upload_limit_bytes: int = Field(2048 * MIB, ge=1024, description="largest upload")
    search_limit_s: float = Field(90.0, gt=0, le=86_400, description="processor time that one search may take")
    request_wait_s: float = Field(
        30.0, gt=0, le=3600, description="most seconds for a request's head, and of silence within its body"
    )
    calibration: tuple[Path, ...] = Field(
        (), description="JSON list of calibrations to predict with, one for each device"
    )
    probe_cpu: bool = Field(True, description="measure this CPU's peaks once, in the background")
    probe_seconds: float = Field(5.0, gt=0, le=600, description="how long that takes")
    samples: Path = Field(ROOT / "app" / "samples", description="folder of bundled measurements")
    static: Path = Field(ROOT / "static", description="folder of the page")

    @property
    def index_url(self) -> str:
        """Database URL of the index."""
        return self.database_url or f"sqlite:///{self.data.expanduser().resolve() / 'index.sqlite3'}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    def problems(self) -> list[Problem]:
        """List what makes these settings unsafe or useless."""
        found = []
        if not (self.static / "index.html").is_file():
            message = f"{self.static} has no index.html"
            remedy = "Set HEADROOM_STATIC to the folder 'static' of Headroom's source."
            found.append(Problem(field="static", message=message, remedy=remedy))
        token = self.token.get_secret_value()
        if not self.loopback and not token:
            message = f"whoever reaches {self.host} from another machine could start programs here"
            remedy = f"Set HEADROOM_TOKEN to {_SECRET}, or listen on 127.0.0.1."
            found.append(Problem(field="host", message=message, remedy=remedy))
        if token and len(token.strip()) < SHORTEST_TOKEN:
            message = f"{len(token.strip())} characters can be guessed"
            remedy = f"Set it to {_SECRET}."
            found.append(Problem(field="HEADROOM_TOKEN", message=message, remedy=remedy))
        if token and self.no_token:
            message = "contradicts HEADROOM_TOKEN, which is set"
            found.append(Problem(field="no_token", message=message, remedy="Leave one of them out."))
        try:
            found += placement_problems(decode(Placement, self.placement, "placement"))
        except InputProblems as error:
            found += error.problems
        return found


def is_loopback(host: str) -> bool:
    """Tell whether ``host`` names this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
