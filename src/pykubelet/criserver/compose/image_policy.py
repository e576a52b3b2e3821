"""Makes the image policy of the rules in the policy file and the keys that they name."""

from pathlib import Path

from pykubelet.base.errors import Invalid
from pykubelet.criserver.config import ImagePolicyFile, ImageRule
from pykubelet.criserver.images.signatures import Action, Key, Rule, load_key, longest_scope


class ConfiguredPolicy:
    """The policy of a file, which is read again when it has changed. The keys of a rule are read at each use."""

    def __init__(self, path: Path) -> None:
        self._file = ImagePolicyFile(path)

    def rule_for(self, repository: str) -> Rule:
        """The present rule of a repository. Blocks briefly. Raises Invalid, which names file, and field or key."""
        rules = self._file.rules()
        scope = longest_scope(rules.images, repository)
        return self._rule(scope, rules.images[scope] if scope else rules.default)

    def problems(self) -> list[str]:
        """Return the errors of the file and of the keys of its rules. Blocks briefly."""
        try:
            rules = self._file.rules()
        except Invalid as error:
            return [str(error)]
        found = []
        for scope, rule in (("", rules.default), *rules.images.items()):
            try:
                self._rule(scope, rule)
            except Invalid as error:
                found.append(str(error))
        return found

    def _rule(self, scope: str, rule: ImageRule) -> Rule:
        return Rule(
            action=Action(rule.policy),
            scope=scope,
            keys=tuple(self._key(scope, path) for path in rule.keys),
            signed_as=rule.signed_as,
            source=self._file.place(scope),
        )

    def _key(self, scope: str, path: str) -> Key:
        data = self._file.key(scope, path)
        return load_key(data, f"{self._file.place(scope)}.keys: {path}")
