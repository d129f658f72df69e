{{/* Leveret's configuration: the file, and the variables by which the chart adds to it. */}}

{{/* The file's text, as it was given. */}}
{{- define "leveret.config.text" -}}
{{- if kindIs "string" .Values.config -}}
{{- .Values.config -}}
{{- else -}}
{{- .Values.config | default dict | toYaml -}}
{{- end -}}
{{- end -}}

{{- define "leveret.config.name" -}}
{{- .Values.existingConfig | default (include "leveret.fullname" .) -}}
{{- end -}}

{{/* What changes with everything that a running Leveret has read once: pods are made anew when it does. */}}
{{- define "leveret.config.checksum" -}}
{{- printf "%s\n%s" (include "leveret.config.text" .) .Values.amqp.uri | sha256sum -}}
{{- end -}}

{{/* The Secret with the URI, if there is one: the chart's, or one that is there already. */}}
{{- define "leveret.amqp.uriSecret" -}}
{{- if .Values.amqp.uri -}}
{{- include "leveret.fullname" . }}-amqp
{{- else -}}
{{- .Values.amqp.uriSecret.name -}}
{{- end -}}
{{- end -}}

{{/* Where Leveret must agree with Kubernetes, and what must not be in a ConfigMap. A variable goes before the file. */}}
{{- define "leveret.env" -}}
{{- $amqp := .Values.amqp -}}
- name: LEVERET_CONFIG
  value: /etc/leveret/leveret.yaml
- name: LEVERET_ADMIN__LISTEN
  value: {{ printf (ternary "[%s]:%v" "%s:%v" (contains ":" .Values.admin.address)) .Values.admin.address (int .Values.admin.port) | quote }}
- name: LEVERET_SHUTDOWN__GRACE
  value: {{ printf "%ds" (max 0 (sub (int .Values.terminationGracePeriodSeconds) 5)) }}
{{- if include "leveret.amqp.uriSecret" . }}
- name: LEVERET_AMQP__URI_FILE
  value: /run/secrets/leveret/amqp/uri
{{- end }}
{{- with $amqp.credentialsSecret }}
{{- if .name }}
{{- if not $amqp.hosts }}
- name: AMQP_HOST
  valueFrom:
    secretKeyRef:
      name: {{ .name }}
      key: {{ .hostKey }}
- name: AMQP_PORT
  valueFrom:
    secretKeyRef:
      name: {{ .name }}
      key: {{ .portKey }}
- name: LEVERET_AMQP__HOSTS
  value: '["$(AMQP_HOST):$(AMQP_PORT)"]'
{{- end }}
- name: LEVERET_AMQP__USERNAME_FILE
  value: /run/secrets/leveret/amqp/username
- name: LEVERET_AMQP__PASSWORD_FILE
  value: /run/secrets/leveret/amqp/password
{{- end }}
{{- end }}
{{- with $amqp.hosts }}
- name: LEVERET_AMQP__HOSTS
  value: {{ toJson . | squote }}
{{- end }}
{{- with $amqp.vhost }}
- name: LEVERET_AMQP__VHOST
  value: {{ toJson . | squote }}
{{- end }}
{{- with $amqp.tls }}
{{- if .enabled }}
- name: LEVERET_AMQP__TLS__ENABLED
  value: "true"
{{- end }}
{{- if or .ca.secretName .ca.configMapName }}
- name: LEVERET_AMQP__TLS__CA_FILE
  value: /run/secrets/leveret/ca/ca.crt
{{- end }}
{{- if .clientCertSecret }}
- name: LEVERET_AMQP__TLS__CERT_FILE
  value: /run/secrets/leveret/client-cert/tls.crt
- name: LEVERET_AMQP__TLS__KEY_FILE
  value: /run/secrets/leveret/client-cert/tls.key
{{- end }}
{{- if .external }}
- name: LEVERET_AMQP__TLS__EXTERNAL
  value: "true"
{{- end }}
{{- end }}
{{- with .Values.bundleKeys }}
{{- if .secretName }}
{{- $files := list }}
{{- range .keys }}
{{- $files = append $files (printf "/run/secrets/leveret/bundle-keys/%s" .) }}
{{- end }}
- name: LEVERET_BUNDLE__KEY_FILES
  value: {{ toJson $files | squote }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The files' volumes, each with the path where it is mounted: one list for volumes and mounts. */}}
{{- define "leveret.files" -}}
{{- $amqp := .Values.amqp -}}
- path: /etc/leveret
  name: leveret-config
  {{- if eq .Values.configKind "Secret" }}
  secret:
    secretName: {{ include "leveret.config.name" . }}
  {{- else }}
  configMap:
    name: {{ include "leveret.config.name" . }}
  {{- end }}
{{- if include "leveret.amqp.uriSecret" . }}
- path: /run/secrets/leveret/amqp
  name: leveret-amqp
  secret:
    secretName: {{ include "leveret.amqp.uriSecret" . }}
    items:
      - { key: {{ ternary "uri" $amqp.uriSecret.key (not (empty $amqp.uri)) | quote }}, path: uri }
{{- else if $amqp.credentialsSecret.name }}
- path: /run/secrets/leveret/amqp
  name: leveret-amqp
  secret:
    secretName: {{ $amqp.credentialsSecret.name }}
    items:
      - { key: {{ $amqp.credentialsSecret.usernameKey | quote }}, path: username }
      - { key: {{ $amqp.credentialsSecret.passwordKey | quote }}, path: password }
{{- end }}
{{- with $amqp.tls.ca }}
{{- if .secretName }}
- path: /run/secrets/leveret/ca
  name: leveret-ca
  secret:
    secretName: {{ .secretName }}
    items:
      - { key: {{ .key | quote }}, path: ca.crt }
{{- else if .configMapName }}
- path: /run/secrets/leveret/ca
  name: leveret-ca
  configMap:
    name: {{ .configMapName }}
    items:
      - { key: {{ .key | quote }}, path: ca.crt }
{{- end }}
{{- end }}
{{- with $amqp.tls.clientCertSecret }}
- path: /run/secrets/leveret/client-cert
  name: leveret-client-cert
  secret:
    secretName: {{ . }}
{{- end }}
{{- with .Values.bundleKeys }}
{{- if .secretName }}
- path: /run/secrets/leveret/bundle-keys
  name: leveret-bundle-keys
  secret:
    secretName: {{ .secretName }}
{{- end }}
{{- end }}
{{- end -}}
