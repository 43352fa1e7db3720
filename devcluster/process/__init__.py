"""Runs pods as local processes: no root, no images, and no isolation at all.

Intended differences from a container:

* The program sees this machine: its files, users, network, pids and /dev/shm. `securityContext`,
  limits, read-only mounts, `emptyDir.sizeLimit`, probes and hooks are not enforced or run.
* A mount is a directory somewhere else. `mounts.rewrite` maps mount paths in `command`, `args`,
  `workingDir` and environment values; a path that is written inside a program, or inside a mounted
  file, is not mapped. `DEVCLUSTER_MOUNTS` (JSON, mount path -> directory) lets such a program look
  up; in a script inside `args` the path is mapped already and can be used as it is.
* Volumes are emptyDir, hostPath, configMap, secret, downwardAPI, projected, and claims whose
  PersistentVolume is hostPath or local. Their content is as it was when the pod started; only
  service-account tokens are renewed.
* Of the Services only KUBERNETES_SERVICE_* is in the environment.
* A pod has its own loopback address, but a program that binds 0.0.0.0 takes the port from all.
* The main process is not pid 1: without a handler SIGTERM ends it, where a container would wait for
  the end of its grace period.
* All processes that a container started end with its main process, except one that has left its
  environment, its parent and its session.
* `nvidia.com/gpu` gives no devices: CUDA_VISIBLE_DEVICES is empty unless `Options.gpus` is set or
  the pod sets it.
"""
