{{- define "causeway.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "causeway.fullname" -}}
{{- $name := include "causeway.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 57 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 57 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 57 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "causeway.selector" -}}
app.kubernetes.io/name: {{ include "causeway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "causeway.labels" -}}
{{ include "causeway.selector" . }}
{{ include "causeway.chartLabels" . }}
{{- end -}}

{{- define "causeway.chartLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end -}}

{{- define "causeway.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "causeway.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: must name the ServiceAccount to use, because serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "causeway.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Seconds of a duration as in causeway.yaml, rounded up: 500ms, 5s, 10m, 1h. causeway refuses what is none. */}}
{{- define "causeway.seconds" -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9]+" $text | default "0" | int64 -}}
{{- $unit := regexFind "[a-z]+$" $text -}}
{{- if eq $unit "ms" -}}{{- div (add $number 999) 1000 -}}
{{- else if eq $unit "m" -}}{{- mul $number 60 -}}
{{- else if eq $unit "h" -}}{{- mul $number 3600 -}}
{{- else -}}{{- $number -}}
{{- end -}}
{{- end -}}
