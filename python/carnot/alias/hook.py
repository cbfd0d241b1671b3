"""Makes `import tensorrt` import carnot in every process of an environment.

`python -m carnot.alias --install` copies this file beside a .pth file that imports it, so it is read when Python
starts: it imports nothing, and carnot itself is imported when a script asks for one of the names.
"""

import sys

NAMES = ("tensorrt", "tensorrt_bindings", "uff", "cuda", "pycuda")


class Hook:
    """Installs the alias at the first import of one of the names, or at the first question for its version."""

    def _install(self):
        """Installs the alias once; False where carnot is not there or is being imported already."""
        if self not in sys.meta_path:
            return False
        sys.meta_path.remove(self)
        try:
            from carnot import alias
        except ImportError:
            return False
        alias.install()
        return True

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in NAMES or not self._install() or name not in sys.modules:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self)

    def create_module(self, spec):
        """The module that the alias made. It keeps its own specification."""
        module = sys.modules[spec.name]
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = module.__spec__.loader_state

    def find_distributions(self, context):
        if context.name == "tensorrt" and self._install():
            from carnot.alias import distributions

            return distributions(context)
        return []


sys.meta_path.insert(0, Hook())
