"""A model becomes tasks, tasks become measured records, records become a build."""

from tunebook.tuner.tvm_compat import check_versions

# Before any module of this package imports TVM: with a wrong pair TVM ends the process.
check_versions(required=False)
