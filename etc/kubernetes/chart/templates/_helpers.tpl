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

{{/* The root of the kubelets' folders, which their option --root-dir names. */}}
{{- define "fakedev.kubeletRoot" -}}
{{- $plugins := (.Values.draPlugin.kubeletPlugin | default dict).kubeletPluginsDirectoryPath -}}
{{- $root := .Values.devicePlugin.kubeletRootDir | default (and $plugins (dir $plugins)) | default "/var/lib/kubelet" | clean -}}
{{- if and $plugins (ne (clean $plugins) (printf "%s/plugins" $root)) -}}
{{- fail (printf "draPlugin.kubeletPlugin.kubeletPluginsDirectoryPath is %s: give %s/plugins, or another devicePlugin.kubeletRootDir" $plugins $root) -}}
{{- end -}}
{{- $root -}}
{{- end }}

{{/* The folder of the kubelets where the sockets of device plugins are. */}}
{{- define "fakedev.devicePlugins" -}}
{{ .Values.devicePlugin.devicePluginsDir | default "/var/lib/kubelet/device-plugins" | clean }}
{{- end }}

{{/* The folder of the kubelets where plugins register. */}}
{{- define "fakedev.registry" -}}
{{ (.Values.draPlugin.kubeletPlugin | default dict).kubeletRegistrarDirectoryPath | default (printf "%s/plugins_registry" (include "fakedev.kubeletRoot" .)) | clean }}
{{- end }}

{{/* Options of fakedev-node for kubelets with other folders; nothing where they have the usual ones. */}}
{{- define "fakedev.kubeletOptions" -}}
{{- if ne (include "fakedev.devicePlugins" .) "/var/lib/kubelet/device-plugins" }}, --kubelet-folder, {{ include "fakedev.devicePlugins" . | quote }}{{ end -}}
{{- if or (ne (include "fakedev.kubeletRoot" .) "/var/lib/kubelet") (ne (include "fakedev.devicePlugins" .) "/var/lib/kubelet/device-plugins") }}, --kubelet-root, {{ include "fakedev.kubeletRoot" . | quote }}{{ end -}}
{{- end }}

{{/* Where the token of fakedev-node is. */}}
{{- define "fakedev.tokenSecret" -}}
{{ .Values.nodeTokenSecret | default "fakedev-node" }}
{{- end }}

{{/* The pools and how nodes choose one: cluster where it is given, else topology. */}}
{{- define "fakedev.topology" -}}
{{- toYaml (.Values.cluster | default .Values.topology) -}}
{{- end }}

{{/* Whether there are pools of fake-gpu-operator: "true" or nothing. */}}
{{- define "fakedev.pools" -}}
{{- if (include "fakedev.topology" . | fromYaml).nodePools -}}true{{- end -}}
{{- end }}

{{/* Secrets for the registry of the image. */}}
{{- define "fakedev.pullSecrets" -}}
{{- with concat .Values.imagePullSecrets (.Values.draPlugin.imagePullSecrets | default list) }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}

{{/* Where the pods of a part may run, in the form of their specification.
     Called with the values of the part and the chart's affinity, which is kept unless another one is given. */}}
{{- define "fakedev.scheduling" -}}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- range . }}
  - {{ toJson . }}
  {{- end }}
{{- end }}
affinity:
  {{- toYaml (.values.affinity | default (fromYaml .affinity)) | nindent 2 }}
{{- end }}

{{/* Whether there are objects NodeResourceTopology: fake-gpu-operator has had the value in two places. */}}
{{- define "fakedev.nodeTopologies" -}}
{{- if or (.Values.statusExporter.nodeResourceTopology).enabled (.Values.statusUpdater.nodeResourceTopology).enabled }}true{{ end }}
{{- end }}

{{/* A line for each value of fake-gpu-operator that is given and has no effect here. */}}
{{- define "fakedev.unused" -}}
{{- $values := .Values -}}
{{- $reasons := dict
  "kwokGpuDevicePlugin" "KWOK nodes always get their devices from the service"
  "migFaker" "the service follows the annotation run.ai/mig.config"
  "builtinProfiles" "the profiles are device types of fakedev"
  "customProfiles" "configure a device type"
  "prometheus" "utilization by requests of Knative is not followed"
  "computeDomainDraPlugin" "computeDomains.enabled does this, for pools in racks"
  "computeDomainController" "computeDomains.enabled does this, for pools in racks"
  "kwokComputeDomainDraPlugin" "computeDomains.enabled does this, for pools in racks"
  "gpuOperator" "no other chart is installed"
  "gpu-operator" "no other chart is installed"
  "nvidiaDraDriver" "no other chart is installed"
  "nvidia-dra-driver-gpu" "no other chart is installed"
  "nvmlMock" "fakedev-node brings the NVML library"
  "ubuntu" "no pod needs this image"
  "nameOverride" "objects have the names of this chart"
  "fullnameOverride" "objects have the names of this chart"
  "namespaceOverride" "objects are in the namespace of the release"
  "selectorLabelsOverride" "objects have the labels of this chart" -}}
{{- range $name, $reason := $reasons }}
{{- with index $values $name }}
  {{ $name }}: {{ $reason }}
{{- end }}
{{- end }}
{{- if omit .Values.statusUpdater "nodeResourceTopology" }}
  statusUpdater: the service follows pods and nodes
{{- end }}
{{- range $name := list "topologyServer" "statusExporter" }}
{{- range $key, $value := omit (index $values $name) "enabled" "nodeResourceTopology" }}
  {{ $name }}.{{ $key }}: the service does the work of this program
{{- end }}
{{- end }}
{{- range $name := list "devicePlugin" "draPlugin" "kwokDraPlugin" }}
{{- with (index $values $name).image }}
  {{ $name }}.image: all pods have the image {{ include "fakedev.image" $ }}
{{- end }}
{{- with (index $values $name).serviceAccount }}
  {{ $name }}.serviceAccount: fakedev-node never speaks with the API server
{{- end }}
{{- end }}
{{- with .Values.kwokDraPlugin.resources }}
  kwokDraPlugin.resources: the service does the work of this program
{{- end }}
{{- range $key, $value := omit (.Values.draPlugin.kubeletPlugin | default dict) "kubeletRegistrarDirectoryPath" "kubeletPluginsDirectoryPath" }}
  draPlugin.kubeletPlugin.{{ $key }}: fakedev-node is one DaemonSet, which devicePlugin describes
{{- end }}
{{- range $key, $value := omit .Values.environment "openshift" }}
  environment.{{ $key }}: there is nothing of the kind
{{- end }}
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
{{- if .Values.deviceFaults.enabled }}
- {name: FAKEDEV__KUBERNETES__DEVICE_FAULTS, value: "true"}
{{- end }}
{{- if include "fakedev.nodeTopologies" . }}
- {name: FAKEDEV__KUBERNETES__NODE_TOPOLOGIES, value: "true"}
{{- end }}
{{- if .Values.computeDomains.enabled }}
- {name: FAKEDEV__KUBERNETES__COMPUTE_DOMAINS, value: "true"}
{{- end }}
{{- if include "fakedev.pools" . }}
- {name: FAKEDEV__KUBERNETES__COMPATIBILITY, value: fake-gpu-operator}
- {name: FAKEDEV__TOPOLOGY, value: /etc/fakedev-topology/topology.yml}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The name of what belongs to no namespace. */}}
{{- define "fakedev.clusterName" -}}
{{ ternary "fakedev" (printf "fakedev-%s" .Release.Namespace) (eq .Release.Namespace "fakedev") }}
{{- end }}

{{/* The nodes of fakedev-node: those with a pool, without type=kwok. */}}
{{- define "fakedev.nodeAffinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      {{- range list "fakedev/pool" ((include "fakedev.topology" . | fromYaml).nodePoolLabelKey | default "run.ai/simulated-gpu-node-pool") }}
      - matchExpressions:
          - {key: {{ . }}, operator: Exists}
          - {key: type, operator: NotIn, values: [kwok]}
      {{- end }}
{{- end }}
