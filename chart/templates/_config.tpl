{{/*
causeway.yaml as JSON: `config` of the values, with two changes.
- Helm reads YAML 1.1, where an unquoted `on` is true and `off` is false: they become words again.
- The lease is in the release's namespace unless the file says otherwise, so that two releases do not share one.
*/}}
{{- define "causeway.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- include "causeway.words" $config -}}
{{- if and (or $config.sources $config.outputs) (not (hasKey $config "lease")) -}}
{{- $_ := set $config "lease" (dict "name" (include "causeway.fullname" .) "namespace" .Release.Namespace) -}}
{{- end -}}
{{- toJson $config -}}
{{- end -}}

{{/* Changes a map or list in place; prints nothing. */}}
{{- define "causeway.words" -}}
{{- $canBeOff := list "on" "idle" "stalled" "halfClosed" "keepalive" "connections" "perSource" "newPerSecond" "pendingPerSource" -}}
{{- if kindIs "map" . -}}
{{- if hasKey . "true" -}}
{{- $_ := set . "on" (index . "true") -}}
{{- $_ := unset . "true" -}}
{{- end -}}
{{- range $key, $value := . -}}
{{- if and (kindIs "bool" $value) (not $value) (has $key $canBeOff) -}}
{{- $_ := set $ $key "off" -}}
{{- else -}}
{{- include "causeway.words" $value -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" . -}}
{{- range . -}}{{- include "causeway.words" . -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The ports of the listeners and of the tunnel as JSON, each once, without those that only the Pod itself can reach. */}}
{{- define "causeway.ports" -}}
{{- $addresses := list -}}
{{- range .listen -}}
{{- $addresses = append $addresses (kindIs "map" . | ternary (get (kindIs "map" . | ternary . dict) "on") .) -}}
{{- end -}}
{{- with .tunnel -}}{{- with index . "on" -}}{{- $addresses = append $addresses . -}}{{- end -}}{{- end -}}
{{- $ports := list -}}
{{- range $addresses -}}
{{- $port := regexFind "[0-9]+$" (toString .) | int -}}
{{- if eq $port 0 -}}
{{- fail (printf "config.listen: %q must have a port that is not 0: Services and probes need to know it" (toString .)) -}}
{{- end -}}
{{- if not (regexMatch "^(127\\.|localhost:|\\[::1\\])" (toString .)) -}}
{{- $ports = append $ports $port -}}
{{- end -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{/* Ports of the DNS servers (output `dnsServer`) that others than the Pod itself can reach, as a JSON list. */}}
{{- define "causeway.dnsPorts" -}}
{{- $ports := list -}}
{{- range .outputs -}}
{{- with .dnsServer -}}
{{- $on := toString (default ":53" (index . "on")) -}}
{{- if not (regexMatch "^(127\\.|localhost:|\\[::1\\])" $on) -}}
{{- $ports = append $ports (regexFind "[0-9]+$" $on | int) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{/* Where kubelets and Prometheus reach the admin side, as JSON: { port, host, scheme }; {} if they cannot. */}}
{{- define "causeway.admin" -}}
{{- $admin := default dict .config.admin -}}
{{- $on := toString (default "127.0.0.1:9440" (index $admin "on")) -}}
{{- $isLocal := regexMatch "^(127\\.|localhost:|\\[::1\\])" $on -}}
{{- $found := dict -}}
{{- if and (ne $on "off") (or (not $isLocal) .hostNetwork) -}}
{{- $_ := set $found "port" (regexFind "[0-9]+$" $on | int) -}}
{{- $_ := set $found "scheme" (hasKey $admin "tls" | ternary "HTTPS" "HTTP") -}}
{{- if $isLocal -}}{{- $_ := set $found "host" (hasPrefix "[" $on | ternary "::1" "127.0.0.1") -}}{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The user whose password is in the admin Secret. */}}
{{- define "causeway.adminUser" -}}
{{- $admin := default dict (fromJson (include "causeway.config" .)).admin -}}
{{- $found := list -}}
{{- range kindIs "map" $admin.auth | ternary (list $admin.auth) $admin.auth -}}
{{- if hasPrefix "/etc/causeway-admin/" (toString .passwordFile) -}}{{- $found = append $found .username -}}{{- end -}}
{{- end -}}
{{- first $found | default "admin" -}}
{{- end -}}

{{/* Whether a file of `config` is in the folder of the admin Secret: only then it is mounted. */}}
{{- define "causeway.adminSecret" -}}
{{- $config := fromJson (include "causeway.config" .) -}}
{{- if contains "/etc/causeway-admin/" (toJson (default dict $config.admin)) -}}
{{- default (printf "%s-admin" (include "causeway.fullname" .)) .Values.admin.existingSecret -}}
{{- end -}}
{{- end -}}
