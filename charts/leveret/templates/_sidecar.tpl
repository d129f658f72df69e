{{/* For an application's chart: what makes Leveret a part of its pod. Each takes the subchart, .Subcharts.leveret. */}}

{{/* For the pod's labels: the PodMonitor finds it by them. */}}
{{- define "leveret.sidecar.labels" -}}
leveret-sidecar: {{ include "leveret.fullname" . }}
{{- end -}}

{{/* For the pod's annotations: a changed configuration makes a new pod. */}}
{{- define "leveret.sidecar.annotations" -}}
checksum/leveret: {{ include "leveret.config.checksum" . }}
{{- end -}}

{{/* An item of the pod's initContainers, where the sidecar is native, else nothing. */}}
{{- define "leveret.sidecar.initContainers" -}}
{{- if .Values.sidecar.native -}}
- {{ include "leveret.container" . | nindent 2 | trim }}
  restartPolicy: Always
{{- end -}}
{{- end -}}

{{/* An item of the pod's containers, where the sidecar is a plain container, else nothing. */}}
{{- define "leveret.sidecar.containers" -}}
{{- if not .Values.sidecar.native -}}
- {{ include "leveret.container" . | nindent 2 | trim }}
{{- end -}}
{{- end -}}

{{/* Items of the pod's volumes. */}}
{{- define "leveret.sidecar.volumes" -}}
{{- include "leveret.volumes" . | trim -}}
{{- end -}}
