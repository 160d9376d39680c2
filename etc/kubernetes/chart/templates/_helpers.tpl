{{/* The image of all pods. */}}
{{- define "fakedev.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}
{{- end }}

{{/* Whether devices are offered by DRA: "true" or nothing. */}}
{{- define "fakedev.dra" -}}
{{- if ne (include "fakedev.resources" .) "device-plugin" -}}true{{- end -}}
{{- end }}

{{/* How devices are offered: device-plugin, dra or both. */}}
{{- define "fakedev.resources" -}}
{{- $configured := .Values.configuration.kubernetes.resources -}}
{{- if and (or .Values.draPlugin.enabled .Values.kwokDraPlugin.enabled) (eq $configured "device-plugin") -}}dra{{- else -}}{{ $configured }}{{- end -}}
{{- end }}

{{/* Whether there are nodes with kubelets: "true" or nothing. */}}
{{- define "fakedev.kubelets" -}}
{{- if or .Values.devicePlugin.enabled .Values.draPlugin.enabled -}}true{{- end -}}
{{- end }}

{{/* Where the token of fakedev-node is. */}}
{{- define "fakedev.tokenSecret" -}}
{{ .Values.nodeTokenSecret | default "fakedev-node" }}
{{- end }}

{{/* What changes the configuration file; Kubernetes replaces $(NAME) by the variable above. */}}
{{- define "fakedev.environment" -}}
{{- if include "fakedev.kubelets" . }}
- {name: FAKEDEV_NODE_TOKEN, valueFrom: {secretKeyRef: {name: {{ include "fakedev.tokenSecret" . }}, key: token}}}
- {name: FAKEDEV__KUBERNETES__LISTEN, value: '[{"listen": "*:9401", "tokens": ["$(FAKEDEV_NODE_TOKEN)"]}]'}
{{- end }}
{{- if ne (include "fakedev.resources" .) .Values.configuration.kubernetes.resources }}
- {name: FAKEDEV__KUBERNETES__RESOURCES, value: {{ include "fakedev.resources" . }}}
{{- end }}
{{- if .Values.topology.nodePools }}
- {name: FAKEDEV__KUBERNETES__COMPATIBILITY, value: fake-gpu-operator}
- {name: FAKEDEV__TOPOLOGY, value: /etc/fakedev-topology/topology.yml}
{{- end }}
{{- end }}

{{/* The name of what belongs to no namespace. */}}
{{- define "fakedev.clusterName" -}}
{{ ternary "fakedev" (printf "fakedev-%s" .Release.Namespace) (eq .Release.Namespace "fakedev") }}
{{- end }}
