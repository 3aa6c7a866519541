"""A model becomes tasks, tasks become measured records, records become a build."""

import os

from tunebook.tuner.tvm_compat import check_versions

# A build tool tells nobody outside what it does; onnxruntime asks before it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# Before any module of this package imports TVM: with a wrong pair TVM ends the process.
check_versions(required=False)
