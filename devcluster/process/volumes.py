"""A pod's volumes as directories of this machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.client import at
from devcluster.kubelet.runtime import Manifest, StartError
from devcluster.process import downward
from devcluster.process.downward import Place
from devcluster.process.files import File, write_all
from devcluster.process.hostpath import host_path
from devcluster.process.objects import SINGULAR, Api, Kind, find, find_data
from devcluster.process.tokens import TokenFile

_DEFAULT_MODE = 0o644
_DEFAULT_TOKEN_SECONDS = 3600
_KINDS: dict[str, Kind] = {"configMap": "configmaps", "secret": "secrets"}


@dataclass(frozen=True)
class Filling:
    """The content of a volume made of API objects; tokens are requested once the files exist."""

    files: Mapping[str, File] = field(default_factory=dict)
    tokens: tuple[TokenFile, ...] = ()


@dataclass(frozen=True)
class Volumes:
    """Provides the volumes of one pod: `disk` and `memory` are directories of its own."""

    api: Api
    place: Place
    disk: Path
    memory: Path

    async def provide(self, volume: Manifest) -> tuple[Path, tuple[TokenFile, ...]]:
        """Return the path of a volume, and the tokens to put there; raises StartError."""
        try:
            return await self._provide(volume)
        except StartError as error:
            message = f'MountVolume.SetUp failed for volume "{volume["name"]}": {error.message}'
            raise StartError("FailedMount", message) from None

    async def _provide(self, volume: Manifest) -> tuple[Path, tuple[TokenFile, ...]]:
        if (source := volume.get("hostPath")) is not None:
            return host_path(source["path"], source.get("type") or ""), ()
        if (source := volume.get("persistentVolumeClaim")) is not None:
            return await self._claimed(source["claimName"]), ()
        if volume.get("ephemeral") is not None:
            return await self._claimed(f"{self.place.name}-{volume['name']}"), ()
        if (source := volume.get("emptyDir")) is not None:
            return self._empty(volume["name"], source.get("medium") or ""), ()
        directory = self.disk / volume["name"]
        filling = await self._filling(volume, directory)
        directory.mkdir(parents=True, exist_ok=True)
        write_all(directory, filling.files)
        return directory, filling.tokens

    def _empty(self, name: str, medium: str) -> Path:
        parent = self.memory if medium == "Memory" else self.disk
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory = parent / name
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)
        return directory

    async def _claimed(self, claim: str) -> Path:
        namespace = self.place.namespace
        found = await find(self.api, at("persistentvolumeclaims", namespace, claim))
        if found is None:
            raise StartError("FailedMount", f'persistentvolumeclaim "{claim}" not found')
        name = found["spec"].get("volumeName")
        if not name:
            raise StartError("FailedMount", f'persistentvolumeclaim "{claim}" is not bound yet')
        volume = await find(self.api, at("persistentvolumes", None, name))
        if volume is None:
            raise StartError("FailedMount", f'persistentvolume "{name}" not found')
        spec = volume["spec"]
        if source := spec.get("hostPath"):
            return host_path(source["path"], source.get("type") or "")
        if source := spec.get("local"):
            return host_path(source["path"], "Directory")
        raise StartError(
            "FailedMount",
            f'persistentvolume "{name}" is neither hostPath nor local: '
            "process nodes mount no other kinds",
        )

    async def _filling(self, volume: Manifest, directory: Path) -> Filling:
        if (source := volume.get("projected")) is not None:
            return await self._projected(source, directory)
        mode = _DEFAULT_MODE
        for kind in ("configMap", "secret", "downwardAPI"):
            if (source := volume.get(kind)) is not None:
                mode = source.get("defaultMode", mode)
                # Volumes of secrets are older than projected ones and have another name field.
                named = {"name": source["secretName"]} if kind == "secret" else {}
                return Filling(await self._files(kind, {**source, **named}, mode))
        kinds = ", ".join(key for key in volume if key != "name")
        raise StartError("FailedMount", f"process nodes have no {kinds} volumes")

    async def _projected(self, projected: Manifest, directory: Path) -> Filling:
        mode = projected.get("defaultMode", _DEFAULT_MODE)
        files: dict[str, File] = {}
        tokens = []
        for entry in projected.get("sources") or ():
            for kind, source in entry.items():
                if kind == "serviceAccountToken":
                    tokens.append(_token_file(source, directory, mode))
                else:
                    files |= await self._files(kind, source, mode)
        return Filling(files, tuple(tokens))

    async def _files(self, kind: str, source: Manifest, mode: int) -> dict[str, File]:
        if kind == "downwardAPI":
            return self._downward(source, mode)
        if kind not in _KINDS:
            raise StartError("FailedMount", f"process nodes have no projected {kind}")
        data = await find_data(self.api, _KINDS[kind], self.place.namespace, source["name"])
        optional = source.get("optional", False)
        if data is None and not optional:
            raise StartError(
                "FailedMount", f'{SINGULAR[_KINDS[kind]]} "{source["name"]}" not found'
            )
        return chosen(data or {}, source, mode)

    def _downward(self, source: Manifest, mode: int) -> dict[str, File]:
        files = {}
        for item in source.get("items") or ():
            if reference := item.get("fieldRef"):
                text = downward.field(self.place, reference["fieldPath"])
            else:
                reference = item["resourceFieldRef"]
                asked = downward.container_of(self.place.pod, reference["containerName"])
                text = downward.resource(self.place, asked, reference)
            files[item["path"]] = File(text.encode(), item.get("mode", mode))
        return files


def chosen(data: Mapping[str, bytes], source: Manifest, mode: int) -> dict[str, File]:
    """Return the files of a ConfigMap or Secret: every key, or those that `items` lists."""
    items = source.get("items")
    if not items:
        return {key: File(content, mode) for key, content in data.items()}
    missing = [item["key"] for item in items if item["key"] not in data]
    if missing and not source.get("optional"):
        raise StartError("FailedMount", f"references non-existent key: {', '.join(missing)}")
    return {
        item["path"]: File(data[item["key"]], item.get("mode", mode))
        for item in items
        if item["key"] in data
    }


def _token_file(source: Manifest, directory: Path, mode: int) -> TokenFile:
    return TokenFile(
        path=directory / source["path"],
        mode=mode,
        audience=source.get("audience"),
        expiration_seconds=source.get("expirationSeconds", _DEFAULT_TOKEN_SECONDS),
    )
