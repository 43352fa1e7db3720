"""Runs pods as local processes: no root, no images, and no isolation whatever.

What differs from a container, by design:

* The program sees this machine: its files, users, network, pids and /dev/shm. `securityContext`,
  limits, read-only mounts, `emptyDir.sizeLimit` and probes are not enforced or run here.
* A mount is a directory somewhere else. `mounts.rewrite` maps mount paths in `command`, `args`,
  `workingDir` and environment values; a path that is written inside a program, or inside a mounted
  file, is not mapped. `DEVCLUSTER_MOUNTS` (JSON, mount path -> directory) lets a program look up.
* ConfigMap, Secret and downward API volumes are as they were when the pod started; only
  service-account tokens are renewed.
* The main process is not pid 1: without a handler SIGTERM ends it, where a container would wait for
  the end of its grace period.
* `nvidia.com/gpu` gives no devices: CUDA_VISIBLE_DEVICES is empty unless `Options.gpus` is set or
  the pod sets it.
"""
