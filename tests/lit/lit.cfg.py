# Configures lit, which runs the tests of passes: the RUN lines in *.kir files, with kiln-opt and FileCheck.
import os
import sys

import lit.formats

config.name = "kiln"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".kir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.build_root
config.substitutions.append((r"\bkiln-opt\b", config.kiln_opt))
config.substitutions.append((r"(?<![-\w/.])kiln(?= (explain|ptx))", config.kiln))
config.substitutions.append((r"\bkiln-cross\b", config.kiln_cross))
config.substitutions.append((r"\bloops\b", f"{sys.executable} {config.test_source_root}/cpu/loops.py"))
config.substitutions.append((r"\bFileCheck\b", config.filecheck))
config.environment.update({name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")})
