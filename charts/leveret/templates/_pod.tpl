{{/* The container and the pod, each written once: for the Deployment, for sidecars and for the pod of `helm test`. */}}

{{/* What every container of Leveret's has in common. */}}
{{- define "leveret.container.base" -}}
image: {{ include "leveret.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  {{- include "leveret.env" . | nindent 2 }}
{{- with .Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  {{- range fromYamlArray (include "leveret.files" .) }}
  - name: {{ .name }}
    mountPath: {{ .path }}
    readOnly: true
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The container that runs Leveret. */}}
{{- define "leveret.container" -}}
name: leveret
args: [run]
{{ include "leveret.container.base" . }}
ports:
  - name: leveret-admin
    containerPort: {{ int .Values.admin.port }}
{{- with .Values.livenessProbe }}
livenessProbe:
  {{- merge (dict "httpGet" (dict "path" "/livez" "port" "leveret-admin")) . | toYaml | nindent 2 }}
{{- end }}
{{- if or (eq .Values.mode "standalone") .Values.sidecar.readiness }}
{{- with .Values.readinessProbe }}
readinessProbe:
  {{- merge (dict "httpGet" (dict "path" "/readyz" "port" "leveret-admin")) . | toYaml | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "leveret.volumes" -}}
{{- range fromYamlArray (include "leveret.files" .) }}
- {{ omit . "path" | toYaml | nindent 2 | trim }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What a pod has in common, whatever runs in it. */}}
{{- define "leveret.podSpec.base" -}}
serviceAccountName: {{ include "leveret.serviceAccountName" . }}
automountServiceAccountToken: {{ .Values.serviceAccount.automountToken }}
enableServiceLinks: false
{{- with include "leveret.imagePullSecrets" . }}
imagePullSecrets:
  {{- . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- range $key := list "nodeSelector" "affinity" "tolerations" "hostAliases" "dnsConfig" }}
{{- with get $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
volumes:
  {{- include "leveret.volumes" . | trim | nindent 2 }}
{{- end -}}

{{/* The Deployment's pod. */}}
{{- define "leveret.pod" -}}
{{- $selector := fromYaml (include "leveret.selectorLabels" .) -}}
metadata:
  labels:
    {{- mergeOverwrite dict .Values.commonLabels .Values.podLabels $selector | toYaml | nindent 4 }}
  annotations:
    {{- merge (dict "checksum/config" (include "leveret.config.checksum" .)) .Values.podAnnotations .Values.commonAnnotations | toYaml | nindent 4 }}
spec:
  {{- include "leveret.podSpec.base" . | nindent 2 }}
  terminationGracePeriodSeconds: {{ int .Values.terminationGracePeriodSeconds }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{ ternary . (set (deepCopy .) "labelSelector" (dict "matchLabels" $selector)) (hasKey . "labelSelector") | toYaml | nindent 6 | trim }}
    {{- end }}
  {{- end }}
  {{- with .Values.extraInitContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - {{ include "leveret.container" . | nindent 6 | trim }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
