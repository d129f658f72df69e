{{/* Names, labels and the image. */}}

{{- define "leveret.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough that what the chart appends to it fits a label too. */}}
{{- define "leveret.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "leveret.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "leveret.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "leveret.serviceAccountName" -}}
{{- $made := and .Values.serviceAccount.create (eq .Values.mode "standalone") -}}
{{- .Values.serviceAccount.name | default (ternary (include "leveret.fullname" .) "default" $made) -}}
{{- end -}}

{{/* What selects the standalone pods. It never changes: a Deployment's selector cannot. */}}
{{- define "leveret.selectorLabels" -}}
app.kubernetes.io/name: {{ include "leveret.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The name label of the pod of `helm test`, which no Service and no budget must select. */}}
{{- define "leveret.testName" -}}
{{- include "leveret.name" . | trunc 58 }}-test
{{- end -}}

{{- define "leveret.labels" -}}
{{ include "leveret.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* An object's metadata. Takes root, and as needed: name (the full name), suffix, namespace, labels, annotations. */}}
{{- define "leveret.metadata" -}}
{{- $root := .root -}}
name: {{ .name | default (include "leveret.fullname" $root) }}{{ .suffix }}
namespace: {{ .namespace | default $root.Release.Namespace }}
labels:
  {{- mergeOverwrite (fromYaml (include "leveret.labels" $root)) $root.Values.commonLabels (.labels | default dict) | toYaml | nindent 2 }}
{{- with mergeOverwrite dict $root.Values.commonAnnotations (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "leveret.image" -}}
{{- $image := .Values.image -}}
{{- $registry := default $image.registry (.Values.global).imageRegistry -}}
{{- $name := ternary (printf "%s/%s" $registry $image.repository) $image.repository (not (empty $registry)) -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "leveret.imagePullSecrets" -}}
{{- $secrets := list -}}
{{- range concat .Values.imagePullSecrets ((.Values.global).imagePullSecrets | default list) -}}
{{- $secrets = append $secrets (ternary . (dict "name" .) (kindIs "map" .)) -}}
{{- end -}}
{{- with uniq $secrets -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}
