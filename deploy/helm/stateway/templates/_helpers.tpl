{{- define "stateway.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "stateway.selector" -}}
app.kubernetes.io/name: stateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "stateway.labels" -}}
{{ include "stateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "stateway.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "stateway.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{/* Not empty if the built-in engine stores its data in a file on a volume. */}}
{{- define "stateway.file" -}}
{{- if and .Values.builtin.enabled (not .Values.builtin.store.url) -}}true{{- end -}}
{{- end -}}

{{/* Not empty if the built-in engine stores its data in a database, which several gateways can share. */}}
{{- define "stateway.shared" -}}
{{- if and .Values.builtin.enabled .Values.builtin.store.url -}}true{{- end -}}
{{- end -}}

{{/* What the pods belong to: pods with a volume of their own need a StatefulSet. */}}
{{- define "stateway.kind" -}}
{{- if or (include "stateway.file" .) .Values.audit.enabled -}}StatefulSet{{- else -}}Deployment{{- end -}}
{{- end -}}

{{/* A volume for each pod. */}}
{{- define "stateway.claim" -}}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata:
    name: {{ .name }}
  spec:
    accessModes: [ReadWriteOncePod]
    {{- with .storageClassName }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests:
        storage: {{ .size }}
{{- end -}}

{{/* A list of texts in TOML, whose basic strings are those of JSON. */}}
{{- define "stateway.texts" -}}
[{{ range $i, $text := . }}{{ if $i }}, {{ end }}{{ $text | toJson }}{{ end }}]
{{- end -}}

{{/* Combinations that the gateway would refuse at its start, or that would lose data. */}}
{{- define "stateway.check" -}}
{{- $v := .Values -}}
{{- if and (include "stateway.file" .) (gt (int $v.replicas) 1) -}}
{{- fail "replicas must be 1 with builtin.enabled and without builtin.store.url: the store of the built-in engine is one file that one process can use. Set builtin.store.url to a PostgreSQL database that several gateways share, or builtin.enabled to false to run several gateways in front of other engines." -}}
{{- end -}}
{{- $store := $v.builtin.store -}}
{{- if and (or $store.passwordSecretName $store.caSecretName) (not (include "stateway.shared" .)) -}}
{{- fail "builtin.store.passwordSecretName and builtin.store.caSecretName need builtin.enabled and builtin.store.url." -}}
{{- end -}}
{{- if and (not $v.builtin.enabled) (not (contains "[providers." $v.config)) -}}
{{- fail "config must have at least one [providers.ID] without builtin.enabled; docs/stateway.example.toml shows them." -}}
{{- end -}}
{{- if not $v.tls.secretName -}}
{{- fail "tls.secretName must name a secret of type kubernetes.io/tls: without TLS the gateway listens on loopback only." -}}
{{- end -}}
{{- $a := $v.authentication -}}
{{- if not (or $a.certificates.enabled $a.jwt.issuer $a.apiKeys.secretName $a.proxy.subjects) -}}
{{- fail "authentication must have at least one method (certificates.enabled, jwt.issuer, apiKeys.secretName or proxy.subjects): without one the gateway listens on loopback only." -}}
{{- end -}}
{{- if and (or $a.certificates.enabled $a.proxy.subjects) (not $v.tls.clientCaSecretName) -}}
{{- fail "tls.clientCaSecretName must name the authorities of client certificates for authentication.certificates and authentication.proxy." -}}
{{- end -}}
{{- if and $a.jwt.issuer (not (and $a.jwt.audience $a.jwt.jwksUrl)) -}}
{{- fail "authentication.jwt needs audience and jwksUrl." -}}
{{- end -}}
{{- if and (gt (int $v.replicas) 1) (not $v.tokenKey.secretName) -}}
{{- fail "tokenKey.secretName must name a secret if replicas is greater than 1: a page token of one replica would be invalid on the others." -}}
{{- end -}}
{{- $hasLog := regexMatch "(?m)^\\s*\\[audit\\]" $v.config -}}
{{- if $v.audit.enabled -}}
{{- if $hasLog -}}
{{- fail "config must not have [audit] with audit.enabled: the chart writes that section. Put its other lines into audit.config." -}}
{{- end -}}
{{- if ne (empty $v.audit.webhook.url) (empty $v.audit.webhook.secretName) -}}
{{- fail "audit.webhook needs both url and secretName: messages to the receiver are signed." -}}
{{- end -}}
{{- if and $v.audit.webhook.url (contains "[audit.webhook]" $v.config) -}}
{{- fail "config must not have [audit.webhook] with audit.webhook.url: the chart writes that section." -}}
{{- end -}}
{{- else if $v.audit.webhook.url -}}
{{- fail "audit.webhook needs audit.enabled: the log is the queue of the receiver." -}}
{{- else if and $hasLog (not (include "stateway.file" .)) (not $v.extraVolumeMounts) -}}
{{- fail "config has [audit], and the pods have no writable volume: set audit.enabled, which gives each gateway a log of its own." -}}
{{- end -}}
{{- end -}}

{{/* stateway.toml */}}
{{- define "stateway.toml" -}}
{{- $v := .Values -}}
[server]
listen = "{{ $v.server.address }}:7380"
monitoring_listen = "{{ $v.server.address }}:{{ $v.monitoring.port }}"
{{- if $v.tokenKey.secretName }}
token_key_file = "/etc/stateway/token/token.key"
{{- end }}
{{- with $v.server.config }}
{{ . | trim }}
{{- end }}

[server.tls]
cert = "/etc/stateway/tls/tls.crt"
key = "/etc/stateway/tls/tls.key"
{{- if $v.tls.clientCaSecretName }}
client_ca = "/etc/stateway/client-ca/ca.crt"
{{- end }}
{{- with $v.authentication }}
{{- if .certificates.enabled }}

[authentication.certificates]
{{- range .certificates.grants }}
[[authentication.certificates.grants]]
subject = {{ .subject | toJson }}
roles = {{ include "stateway.texts" (.roles | default list) }}
{{- with .tenant }}
tenant = {{ . | toJson }}
{{- end }}
{{- end }}
{{- end }}
{{- if .jwt.issuer }}

[authentication.jwt]
issuer = {{ .jwt.issuer | toJson }}
audience = {{ include "stateway.texts" .jwt.audience }}
jwks_url = {{ .jwt.jwksUrl | toJson }}
roles_claim = {{ .jwt.rolesClaim | toJson }}
tenant_claim = {{ .jwt.tenantClaim | toJson }}
{{- end }}
{{- if .apiKeys.secretName }}

[authentication.api_keys]
file = "/etc/stateway/api-keys/keys.json"
{{- end }}
{{- if .proxy.subjects }}

[authentication.proxy]
subjects = {{ include "stateway.texts" .proxy.subjects }}
{{- end }}
{{- end }}
{{- if $v.audit.enabled }}

[audit]
file = "/var/log/stateway/audit.jsonl"
{{- if $v.audit.keySecretName }}
key_file = "/etc/stateway/audit-key/audit.key"
{{- end }}
{{- with $v.audit.config }}
{{ . | trim }}
{{- end }}
{{- if $v.audit.webhook.url }}

[audit.webhook]
url = {{ $v.audit.webhook.url | toJson }}
secret_file = "/etc/stateway/audit-webhook/secret"
{{- end }}
{{- end }}
{{- if $v.builtin.enabled }}

[providers.builtin]
kind = "builtin"
{{- if $v.builtin.store.url }}
store = {{ $v.builtin.store.url | toJson }}
{{- if $v.builtin.store.passwordSecretName }}
store_password_file = "/etc/stateway/store/password"
{{- end }}
{{- if $v.builtin.store.caSecretName }}
store_ca_file = "/etc/stateway/store-ca/ca.crt"
{{- end }}
{{- else }}
path = "/var/lib/stateway/stateway.db"
backups = "/var/lib/stateway/backups"
{{- end }}
{{- with $v.builtin.config }}
{{ . | trim }}
{{- end }}
{{- end }}
{{- with $v.config }}

{{ . | trim }}
{{- end }}
{{ end -}}
