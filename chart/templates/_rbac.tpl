{{/*
The rights that `config` needs in the API server of this cluster: the same as `causeway render rbac` prints
(src/outputs/rbac-rights.ts and rbac-for.ts; a test compares them). Sources with a kubeconfig are in other API servers,
where this chart cannot grant anything.
*/}}

{{/* One right: a list of dict group, resource, verbs, names, places. The place "" is the whole cluster. */}}
{{- define "causeway.rights" -}}
{{- $lease := .lease -}}
{{- $read := list "get" "list" "watch" -}}
{{- $write := concat $read (list "create" "patch" "delete") -}}
{{- $everywhere := list "" -}}
{{- $outputs := default list .outputs -}}

{{- $entersTenants := false -}}
{{- $wantsNodes := false -}}
{{- $hasDns := false -}}
{{- $writesObjects := false -}}
{{- range $outputs -}}
{{- if or (hasKey . "tenantAgent") (hasKey . "tenantEndpoints") -}}{{- $entersTenants = true -}}
{{- else if not (hasKey . "dnsServer") -}}{{- $writesObjects = true -}}{{- end -}}
{{- if hasKey . "dnsEndpoint" -}}
{{- $hasDns = true -}}
{{- if eq (toString (default "nodes" (default dict .dnsEndpoint).targets)) "nodes" -}}{{- $wantsNodes = true -}}{{- end -}}
{{- end -}}
{{- if eq (toString (default dict .dnsServer).targets) "nodes" -}}{{- $wantsNodes = true -}}{{- end -}}
{{- end -}}

{{- /* Sources of this API server, and where their objects can be. */ -}}
{{- $sources := list -}}
{{- $others := 0 -}}
{{- $isFirst := false -}}
{{- $namespaces := list -}}
{{- range default list .sources -}}
{{- range $kind, $given := . -}}
{{- $options := default dict $given -}}
{{- if ne $kind "directory" -}}
{{- if hasKey $options "kubeconfig" -}}
{{- $others = add1 $others -}}
{{- else -}}
{{- if and (empty $sources) (eq (int $others) 0) -}}{{- $isFirst = true -}}{{- end -}}
{{- $follows := has $kind (list "hypershift" "kubermatic") -}}
{{- $own := default $everywhere $options.namespaces -}}
{{- $sources = append $sources (dict "kind" $kind "options" $options "namespaces" $own "follows" $follows) -}}
{{- $namespaces = concat $namespaces ($follows | ternary $everywhere $own) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $isNeeded := or (not (empty $sources)) (and (eq (int $others) 0) $writesObjects) -}}
{{- if and (empty $sources) (eq (int $others) 0) -}}{{- $isFirst = true -}}{{- end -}}
{{- if empty $sources -}}{{- $namespaces = list $lease.namespace -}}{{- end -}}
{{- if and $hasDns $isFirst -}}{{- $namespaces = append $namespaces $lease.namespace -}}{{- end -}}
{{- if has "" $namespaces -}}{{- $namespaces = $everywhere -}}{{- end -}}

{{- $rights := list -}}
{{- if $isNeeded -}}
{{- $there := list $lease.namespace -}}
{{- $rights = append $rights (dict "group" "coordination.k8s.io" "resource" "leases" "verbs" (list "create") "places" $there) -}}
{{- $rights = append $rights (dict "group" "coordination.k8s.io" "resource" "leases" "names" (list $lease.name) "verbs" (list "get" "update") "places" $there) -}}

{{- $objectsOf := dict
  "kamaji" (list "tenantcontrolplanes" "kamaji.clastix.io")
  "steward" (list "tenantcontrolplanes" "steward.butlerlabs.dev")
  "hypershift" (list "hostedclusters" "hypershift.openshift.io")
  "kubermatic" (list "clusters" "kubermatic.k8c.io")
  "clusterApi" (list "clusters" "cluster.x-k8s.io")
  "k0smotron" (list "clusters" "k0smotron.io") -}}
{{- $definition := dict "group" "apiextensions.k8s.io" "resource" "customresourcedefinitions" "verbs" (list "get") "places" $everywhere -}}
{{- $annotates := ne (toString .statusAnnotation) "false" -}}
{{- range $sources -}}
{{- $kind := .kind -}}
{{- $options := .options -}}
{{- $places := .follows | ternary $everywhere .namespaces -}}
{{- $objectVerbs := or $annotates (eq (toString $options.fix) "true") | ternary (append $read "patch") $read -}}
{{- $claims := has $kind (list "services" "kubermatic") -}}
{{- with index $objectsOf $kind -}}
{{- $objectPlaces := eq $kind "kubermatic" | ternary $everywhere (default $everywhere $options.namespaces) -}}
{{- $rights = append $rights (dict "group" (index . 1) "resource" (index . 0) "verbs" $objectVerbs "places" $objectPlaces) -}}
{{- $rights = append $rights (merge (dict "names" (list (printf "%s.%s" (index . 0) (index . 1)))) $definition) -}}
{{- if $entersTenants -}}
{{- $rights = append $rights (dict "group" "" "resource" "secrets" "verbs" (list "get") "places" $places) -}}
{{- else if and (eq $kind "kubermatic") (or $options.zone $wantsNodes) -}}
{{- $rights = append $rights (dict "group" "" "resource" "secrets" "names" (list "admin-kubeconfig") "verbs" (list "get") "places" $places) -}}
{{- end -}}
{{- end -}}
{{- $rights = append $rights (dict "group" "" "resource" "services" "verbs" ($claims | ternary $objectVerbs $read) "places" $places) -}}
{{- $rights = append $rights (dict "group" "events.k8s.io" "resource" "events" "verbs" (list "create") "places" $places) -}}
{{- if and $claims $annotates -}}
{{- $rights = append $rights (dict "group" "" "resource" "services/status" "verbs" (list "patch") "places" $places) -}}
{{- end -}}
{{- if eq $kind "hypershift" -}}
{{- $rights = append $rights (dict "group" "route.openshift.io" "resource" "routes" "verbs" $read "places" $everywhere) -}}
{{- $rights = append $rights (merge (dict "names" (list "routes.route.openshift.io")) $definition) -}}
{{- end -}}
{{- if eq (default (eq $kind "hypershift" | ternary "clusterIP" "endpoints") $options.via) "endpoints" -}}
{{- $rights = append $rights (dict "group" "discovery.k8s.io" "resource" "endpointslices" "verbs" $read "places" $places) -}}
{{- end -}}
{{- end -}}

{{- range $outputs -}}
{{- range $kind, $given := . -}}
{{- $writes := list -}}
{{- if eq $kind "ingress" -}}
{{- $writes = append $writes (list "ingresses" "networking.k8s.io" false) -}}
{{- if eq (toString (default dict $given).flavor) "fromCluster" -}}
{{- $writes = append $writes (list "ingressroutetcps" "traefik.io" true) -}}
{{- end -}}
{{- else if eq $kind "ingressRouteTCP" -}}{{- $writes = append $writes (list "ingressroutetcps" "traefik.io" true) -}}
{{- else if eq $kind "tlsRoute" -}}{{- $writes = append $writes (list "tlsroutes" "gateway.networking.k8s.io" true) -}}
{{- else if eq $kind "transportServer" -}}{{- $writes = append $writes (list "transportservers" "k8s.nginx.org" true) -}}
{{- else if eq $kind "dnsEndpoint" -}}
{{- $writes = append $writes (list "dnsendpoints" "externaldns.k8s.io" true) -}}
{{- /* Those of clusters that are in no namespace. */ -}}
{{- $rights = append $rights (dict "group" "externaldns.k8s.io" "resource" "dnsendpoints" "verbs" $write "places" $there) -}}
{{- end -}}
{{- range $writes -}}
{{- $rights = append $rights (dict "group" (index . 1) "resource" (index . 0) "verbs" $write "places" $namespaces) -}}
{{- if index . 2 -}}
{{- $rights = append $rights (merge (dict "names" (list (printf "%s.%s" (index . 0) (index . 1)))) $definition) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $rights -}}
{{- end -}}

{{/* The rights by place, joined: what is granted for the whole cluster is not granted again in a namespace. */}}
{{- define "causeway.scopes" -}}
{{- $scopes := dict -}}
{{- range fromJsonArray (include "causeway.rights" .) -}}
{{- $right := . -}}
{{- $key := join "/" (concat (list .group .resource) (default list .names)) -}}
{{- range .places -}}
{{- $place := . | default "*" -}}
{{- $scope := default dict (index $scopes $place) -}}
{{- $_ := set $scopes $place $scope -}}
{{- $known := default (dict "verbs" list) (index $scope $key) -}}
{{- $verbs := concat $known.verbs $right.verbs | uniq -}}
{{- $_ := set $scope $key (dict "group" $right.group "resource" $right.resource "names" $right.names "verbs" $verbs) -}}
{{- end -}}
{{- end -}}
{{- $everywhere := default dict (index $scopes "*") -}}
{{- $found := dict -}}
{{- range $place, $scope := $scopes -}}
{{- $rules := list -}}
{{- range $key, $right := $scope -}}
{{- $verbs := $right.verbs -}}
{{- if ne $place "*" -}}
{{- range (default dict (index $everywhere $key)).verbs -}}{{- $verbs = without $verbs . -}}{{- end -}}
{{- end -}}
{{- if $verbs -}}
{{- $rule := dict "apiGroups" (list $right.group) "resources" (list $right.resource) "verbs" $verbs -}}
{{- if $right.names -}}{{- $_ := set $rule "resourceNames" $right.names -}}{{- end -}}
{{- $rules = append $rules $rule -}}
{{- end -}}
{{- end -}}
{{- if $rules -}}{{- $_ := set $found $place $rules -}}{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}
