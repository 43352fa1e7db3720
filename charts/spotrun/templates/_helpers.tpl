{{- define "spotrun.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* What selects the operator's pods; a Deployment's selector can never be changed. */ -}}
{{- define "spotrun.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "spotrun.labels" -}}
{{ include "spotrun.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* Of pods that are not the operator's: neither Services nor the disruption budget may select them. */ -}}
{{- define "spotrun.helperSelectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-helper
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Of the page's pod: no Service of the operator may select it. */ -}}
{{- define "spotrun.pageSelectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-page
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "spotrun.helperLabels" -}}
{{ include "spotrun.helperSelectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "spotrun.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "spotrun.fullname" .) -}}
{{- else -}}
{{- required "serviceAccount.name is missing: name an account that is there, or leave serviceAccount.create true" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "spotrun.image" -}}
{{- $repository := required "image.repository is missing: build operator/Dockerfile, push the image to your registry, and name it: --set image.repository=REGISTRY/spotrun-operator" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "spotrun.prices" -}}
{{- if .Values.prices.configMap -}}
{{- .Values.prices.configMap -}}
{{- else -}}
{{- include "spotrun.fullname" . }}-prices
{{- end -}}
{{- end -}}

{{- define "spotrun.tlsSecret" -}}
{{- if eq .Values.tls.source "secret" -}}
{{- required "tls.secretName is missing: name the Secret with tls.crt, tls.key and ca.crt" .Values.tls.secretName -}}
{{- else -}}
{{- include "spotrun.fullname" . }}-tls
{{- end -}}
{{- end -}}

{{- define "spotrun.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "spotrun.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
