{{/* What Prometheus scrapes, and which of its series the alerts are about. */}}

{{/* An endpoint of a ServiceMonitor or a PodMonitor. Takes monitor and port. */}}
{{- define "leveret.scrape" -}}
port: {{ .port }}
path: /metrics
{{- range $key := list "interval" "scrapeTimeout" }}
{{- with get $.monitor $key }}
{{ $key }}: {{ . }}
{{- end }}
{{- end }}
{{- range $key := list "relabelings" "metricRelabelings" }}
{{- with get $.monitor $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The labels that the operator gives the series: the job is the Service, or namespace and name of the PodMonitor. */}}
{{- define "leveret.seriesSelector" -}}
{{- $job := include "leveret.fullname" . -}}
{{- if not .Values.serviceMonitor.enabled -}}
{{- $job = printf "%s/%s" .Release.Namespace $job -}}
{{- end -}}
{{- .Values.prometheusRule.selector | default (printf "namespace=%q, job=%q" .Release.Namespace $job) -}}
{{- end -}}
