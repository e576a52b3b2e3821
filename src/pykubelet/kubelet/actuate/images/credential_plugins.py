"""Asks credential provider plugins for registry credentials; `CredentialProviders` of the configuration names them.

The image manager asks before each pull. A plugin that hangs, fails or prints nonsense provides no credentials, and
delays only pods with images that match it. Source: KEP-2133, KEP-4412.
"""

import asyncio
import logging
import os
import signal
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from msgspec import Struct

from pykubelet.base import proc
from pykubelet.base.concurrency.single_flight import SingleFlight
from pykubelet.base.errors import Invalid, Permanent, PykubeletError
from pykubelet.base.text import printable
from pykubelet.base.units import Seconds, parse_duration
from pykubelet.kubelet.actuate.images.image_interfaces import ImageMetrics, ServiceAccounts
from pykubelet.kubelet.actuate.images.plan import provider_protocol as protocol
from pykubelet.kubelet.actuate.images.plan.keyring import Keyring, RegistryCredentials
from pykubelet.kubelet.actuate.images.plan.provider_protocol import Identity, ProviderAnswer
from pykubelet.kubelet.config.credential_providers import CredentialProvider, CredentialProviders
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)

_DEADLINE: Final[Seconds] = 60.0
_MAX_OUTPUT: Final = 1 << 20
_MAX_SHOWN: Final = 500
"""Characters of a plugin's standard error in the log."""
_MAX_CACHED: Final = 1000
"""Answers of one plugin that are kept."""


class PluginDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of the plugins."""

    accounts: ServiceAccounts | None
    """None without a cluster."""
    telemetry: Telemetry[ImageMetrics]
    deadline: Seconds = _DEADLINE
    """Time limit of a plugin's run."""


class CredentialPlugins:
    """The plugins of the node, in the order of the configuration."""

    def __init__(self, deps: PluginDeps, config: CredentialProviders | None) -> None:
        self._plugins: tuple[_Plugin, ...] = ()
        if config is not None:
            self._plugins = tuple(
                _Plugin(
                    each,
                    program=str(config.bin_dir / each.name),
                    accounts=deps.accounts,
                    telemetry=deps.telemetry,
                    deadline=deps.deadline,
                )
                for each in config.providers
            )
            deps.telemetry.metrics.credential_config(config.config_hash)

    async def lookup(self, pod: Pod, repository: str) -> tuple[RegistryCredentials, ...]:
        """Return the credentials of all plugins that match the repository, most specific first; never raises."""
        asked = [each for each in self._plugins if each.matches(repository)]
        if not asked:
            return ()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.ask(pod, repository), name=f"credentials of {each.name}") for each in asked]
        keyring = Keyring()
        for answer, account in (task.result() for task in tasks):
            keyring.add(answer, account.owner if account is not None else None)
        return keyring.lookup(repository)


_Given = tuple[dict[str, RegistryCredentials], Identity | None]


class _Plugin:
    """One plugin, with its cache."""

    def __init__(
        self,
        config: CredentialProvider,
        *,
        program: str,
        accounts: ServiceAccounts | None,
        telemetry: Telemetry[ImageMetrics],
        deadline: Seconds,
    ) -> None:
        self.name = config.name
        self._config = config
        self._program = program
        self._accounts = accounts
        self._clock = telemetry.clock
        self._metrics = telemetry.metrics
        self._deadline = deadline
        self._default_cache = parse_duration(config.default_cache_duration or "0s")
        self._cache: OrderedDict[Hashable, tuple[ProviderAnswer, Seconds]] = OrderedDict()
        """Answers, and when they expire."""
        self._running: SingleFlight[Hashable, ProviderAnswer] = SingleFlight()

    def matches(self, repository: str) -> bool:
        """Whether the plugin is to be asked for a repository."""
        return protocol.any_matches(self._config.match_images, repository)

    async def ask(self, pod: Pod, repository: str) -> _Given:
        """Return credentials by location, and for whom the plugin was asked; none if that fails."""
        try:
            account = await self._account(pod)
            return dict((await self._answer(repository, account)).auth), account
        except _NotAskedError as error:
            _log.debug("credential provider plugin not asked", extra=self._fields(pod, error))
        except PykubeletError as error:
            _log.warning("credential provider plugin gave no credentials", extra=self._fields(pod, error))
        return {}, None

    def _fields(self, pod: Pod, error: Exception) -> dict[str, str]:
        return {"plugin": self.name, "pod": str(ref_of(pod)), "error": str(error)}

    async def _account(self, pod: Pod) -> Identity | None:
        """Return the service account to pass to the plugin; None if it takes none. Raises _NotAskedError."""
        wanted, name = self._config.token_attributes, pod.spec.service_account_name
        if wanted is None:
            return None
        if not name:
            if wanted.require_service_account:
                raise _NotAskedError("the pod has no service account")
            return None
        if self._accounts is None:
            raise Invalid("cannot get the pod's service account: the agent has no cluster")
        ref = ref_of(pod)
        account = (await self._accounts.service_account(ref.namespace, name)).metadata
        required = wanted.required_service_account_annotation_keys
        if missing := [key for key in required if key not in account.annotations]:
            raise _NotAskedError(f"required annotation {missing[0]} not found")
        token = await self._accounts.image_pull_token(pod, wanted.service_account_token_audience)
        return protocol.identity(
            protocol.account_owner(ref.namespace, name, account.uid),
            account.annotations,
            required=required,
            optional=wanted.optional_service_account_annotation_keys,
            token=token,
        )

    async def _answer(self, repository: str, account: Identity | None) -> ProviderAnswer:
        """Return the cached answer, or that of the plugin. Raises base errors."""
        wanted = self._config.token_attributes
        cache_type = wanted.cache_type if wanted is not None else ""
        whose = account.cache_key(cache_type) if account is not None else None
        if (cached := self._cached(protocol.cache_keys(repository, whose))) is not None:
            return cached
        flight = (repository, account)
        answer = await self._running.run(flight, lambda: self._run(repository, account))
        if protocol.echoes_token(answer, account, cache_type):
            raise Invalid("it returned the service account token as a password, which needs cacheType Token")
        if answer.cache_for:
            self._keep(protocol.cache_key(answer.cache_key_type, repository, whose), answer)
        return answer

    def _cached(self, keys: tuple[Hashable, ...]) -> ProviderAnswer | None:
        now = self._clock.monotonic()
        for key in keys:
            answer, until = self._cache.get(key, (None, 0.0))
            if answer is not None and now < until:
                return answer
        return None

    def _keep(self, key: Hashable, answer: ProviderAnswer) -> None:
        now = self._clock.monotonic()
        for old in [old for old, (_, until) in self._cache.items() if until <= now]:
            del self._cache[old]
        self._cache[key] = (answer, now + answer.cache_for)
        self._cache.move_to_end(key)
        while len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)

    async def _run(self, repository: str, account: Identity | None) -> ProviderAnswer:
        """Run the plugin. Raises base errors, whose messages have nothing of its standard output."""
        request = protocol.request(self._config.api_version, repository, account)
        begin = self._clock.monotonic()
        try:
            done = await proc.run(
                [self._program, *self._config.args],
                timeout=self._deadline,
                input=request,
                env={**os.environ, **{each.name: each.value for each in self._config.env}},
                check=False,
                max_output=_MAX_OUTPUT,
                stop_at_limit=True,
                kill_leftovers=True,
            )
        except PykubeletError:
            self._count(begin, failed=True)
            raise
        self._count(begin, failed=done.truncated or done.returncode != 0)
        if done.truncated:
            # A process that has left the plugin's group may print after the plugin has ended.
            end = " and was killed" if done.returncode == -signal.SIGKILL else ""
            raise Permanent(f"{self._program} printed more than {_MAX_OUTPUT >> 20} MiB{end}")
        if done.returncode != 0:
            said = _shown(done.stderr, account)
            raise Permanent(f"{self._program} ended with exit code {done.returncode}" + (f": {said}" if said else ""))
        return protocol.read_answer(done.stdout, self._config.api_version, self._default_cache)

    def _count(self, begin: Seconds, *, failed: bool) -> None:
        """Count a run that has come to an end; one whose pull was cancelled is no error of the plugin."""
        self._metrics.credential_plugin(self.name, self._clock.monotonic() - begin, failed)


class _NotAskedError(Permanent):
    """The configuration says not to ask the plugin for this pod."""


def _shown(stderr: bytes, account: Identity | None) -> str:
    """The end of a plugin's standard error, without the token that it got."""
    text = stderr.decode(errors="replace").strip()
    if account is not None and account.token:
        text = text.replace(account.token, "…")
    return printable(text[-_MAX_SHOWN:])
