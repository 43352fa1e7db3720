{{- /* Each verb is one that the operator uses; docs/security.md says for what. */ -}}

{{- define "spotrun.rights.jobs" -}}
- apiGroups: [spotrun.dev]
  resources: [trainingjobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [spotrun.dev]
  resources: [trainingjobs/status, trainingjobs/scale]
  verbs: [patch]
- apiGroups: [spotrun.dev]
  resources: [trainingjobs/finalizers, tuningjobs/finalizers]
  verbs: [update]
- apiGroups: [spotrun.dev]
  resources: [tuningjobs]
  verbs: [list, watch]
- apiGroups: [spotrun.dev]
  resources: [tuningjobs/status]
  verbs: [patch]
- apiGroups: [spotrun.dev]
  resources: [spendlimits]
  verbs: [list, watch]
- apiGroups: [spotrun.dev]
  resources: [spendlimits/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims, resourceclaimtemplates]
  verbs: [get]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [create, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [list, watch, create]
{{- if .Values.kueue.enabled }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status]
  verbs: [patch]
{{- end }}
{{- end -}}

{{- define "spotrun.rights.cluster" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [get]
- apiGroups: [spotrun.dev]
  resources: [capacitypools]
  verbs: [list, watch, create, delete]
- apiGroups: [spotrun.dev]
  resources: [capacitypools/status]
  verbs: [patch]
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- if .Values.kueue.enabled }}
- apiGroups: [kueue.x-k8s.io]
  resources: [resourceflavors, workloadpriorityclasses]
  verbs: [list, watch]
{{- end }}
{{- end -}}

{{- define "spotrun.rights.home" -}}
# What is created cannot be limited by name: the name is not known when access is decided.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [spotrun]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [spotrun-agents]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "spotrun.prices" . }}]
  verbs: [list, watch]
# Bills: one for each namespace and month, so their names cannot be listed here.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, create, patch]
{{- end -}}

{{- /* The operator's account as a binding names it. */ -}}
{{- define "spotrun.subjects" -}}
- kind: ServiceAccount
  name: {{ include "spotrun.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{- /* A binding of a role to the operator's account: dict of root, kind (of the role), name and, for Roles, namespace. */ -}}
{{- define "spotrun.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "spotrun.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
{{ include "spotrun.subjects" .root }}
{{- end -}}
