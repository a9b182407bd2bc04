{{/* The Pod of the gateway, for both kinds of workload. */}}
{{- define "causeway.pod" -}}
{{- $config := fromJson (include "causeway.config" .) -}}
{{- $timeouts := default dict $config.timeouts -}}
{{- $ports := fromJsonArray (include "causeway.ports" $config) -}}
{{- $dnsPorts := fromJsonArray (include "causeway.dnsPorts" $config) -}}
{{- $admin := fromJson (include "causeway.admin" (dict "config" $config "hostNetwork" .Values.hostNetwork)) -}}
{{- $adminSecret := include "causeway.adminSecret" . -}}
{{- $drainDelay := include "causeway.seconds" (default "0s" $timeouts.drainDelay) | int -}}
{{- $drain := include "causeway.seconds" (default "10m" $timeouts.drain) | int -}}
{{- $preStop := kindIs "invalid" .Values.preStopSeconds | ternary (eq $drainDelay 0 | ternary 10 0) .Values.preStopSeconds | int -}}
{{- $lowest := 65536 -}}
{{- range concat $ports $dnsPorts -}}{{- $lowest = min $lowest (int .) | int -}}{{- end -}}
{{- $isLow := lt $lowest 1024 -}}
{{- /* The node's low ports need root; without root, capabilities that a container is given do not reach its process. */ -}}
{{- $isRoot := and .Values.hostNetwork $isLow -}}
{{- $mode := $isRoot | ternary 0400 0440 -}}
{{- /* Changes of these keys need new Pods; all others apply in the running ones. */ -}}
{{- $restart := dict -}}
{{- range list "admin" "engine" "workers" "stateDir" "runDir" -}}{{- $_ := set $restart . (index $config .) -}}{{- end -}}
metadata:
  labels:
    {{- include "causeway.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    causeway.dev/restart: {{ toJson $restart | sha256sum | trunc 16 | quote }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "causeway.serviceAccount" . }}
  automountServiceAccountToken: {{ not (empty (fromJson (include "causeway.scopes" $config))) }}
  # Its variables CAUSEWAY_… would be about our own Services.
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- range . }}
    - name: {{ . }}
  {{- end }}
  {{- end }}
  {{- if .Values.hostNetwork }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  # preStop, drainDelay and drain, and a little more.
  terminationGracePeriodSeconds: {{ add $preStop $drainDelay $drain 15 }}
  securityContext:
    {{- if $isRoot }}
    runAsUser: 0
    {{- else }}
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    # Reads the mounted Secrets.
    fsGroup: 65532
    {{- end }}
    seccompProfile: { type: RuntimeDefault }
    {{- if and $isLow (not .Values.hostNetwork) }}
    sysctls: [{ name: net.ipv4.ip_unprivileged_port_start, value: {{ $lowest | quote }} }]
    {{- end }}
  containers:
    - name: causeway
      image: {{ include "causeway.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [run, -c, /etc/causeway/causeway.yaml]
      {{- with .Values.env }}
      env: {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- range $ports }}
        - name: tcp-{{ . }}
          containerPort: {{ . }}
          {{- if $.Values.hostNetwork }}
          hostPort: {{ . }}
          {{- end }}
          protocol: TCP
        {{- end }}
        {{- range $port := $dnsPorts }}
        {{- range list "UDP" "TCP" }}
        - name: dns-{{ lower . }}-{{ $port }}
          containerPort: {{ $port }}
          {{- if $.Values.hostNetwork }}
          hostPort: {{ $port }}
          {{- end }}
          protocol: {{ . }}
        {{- end }}
        {{- end }}
        {{- with $admin.port }}
        - name: admin
          containerPort: {{ . }}
          {{- if $.Values.hostNetwork }}
          hostPort: {{ . }}
          {{- end }}
          protocol: TCP
        {{- end }}
      {{- if $admin }}
      startupProbe:
        httpGet: {{- include "causeway.probe" (merge (dict "path" "/healthz") $admin) | nindent 10 }}
        periodSeconds: 2
        failureThreshold: 30
      livenessProbe:
        httpGet: {{- include "causeway.probe" (merge (dict "path" "/healthz") $admin) | nindent 10 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {{- include "causeway.probe" (merge (dict "path" "/readyz") $admin) | nindent 10 }}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      {{- else if $ports }}
      # The admin side cannot be reached from outside the Pod: an open port has to do.
      readinessProbe:
        tcpSocket: { port: {{ first $ports }} }
        periodSeconds: 5
      {{- end }}
      {{- if gt $preStop 0 }}
      lifecycle: { preStop: { sleep: { seconds: {{ $preStop }} } } }
      {{- end }}
      {{- with .Values.resources }}
      resources: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
          {{- if $isRoot }}
          add: [NET_BIND_SERVICE]
          {{- end }}
      volumeMounts:
        - { name: config, mountPath: /etc/causeway, readOnly: true }
        # For temporary files, and the socket by which a successor takes over.
        - { name: tmp, mountPath: /tmp }
        {{- with $config.stateDir }}
        - { name: state, mountPath: {{ . | quote }} }
        {{- end }}
        {{- if $adminSecret }}
        - { name: admin, mountPath: /etc/causeway-admin, readOnly: true }
        {{- end }}
        {{- range .Values.secrets }}
        - { name: {{ printf "secret-%s" (sha256sum . | trunc 10) }}, mountPath: /etc/causeway-secrets/{{ . }}, readOnly: true }
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: { name: {{ include "causeway.fullname" . }} }
    - name: tmp
      emptyDir: {}
    {{- if $config.stateDir }}
    - name: state
      emptyDir: {}
    {{- end }}
    {{- with $adminSecret }}
    - name: admin
      secret: { secretName: {{ . }}, defaultMode: {{ $mode }} }
    {{- end }}
    {{- range .Values.secrets }}
    - name: {{ printf "secret-%s" (sha256sum . | trunc 10) }}
      secret: { secretName: {{ . }}, defaultMode: {{ $mode }} }
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if kindIs "invalid" .Values.topologySpreadConstraints }}
  {{- if eq .Values.kind "Deployment" }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      matchLabelKeys: [pod-template-hash]
      labelSelector:
        matchLabels: {{- include "causeway.selector" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- else }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "causeway.probe" -}}
path: {{ .path }}
port: admin
scheme: {{ .scheme }}
{{- with .host }}
host: {{ . | quote }}
{{- end }}
{{- end -}}
