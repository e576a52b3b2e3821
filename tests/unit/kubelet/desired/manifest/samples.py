# ruff: noqa: E501
"""A manifest with most of the fields that are possible."""

BASE = """
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": {"a.b/c": "d"}},
 "spec": {
  "initContainers": [
   {"name": "setup", "image": "busybox"},
   {"name": "side", "image": "busybox", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["true"]}}}],
  "containers": [
   {"name": "main", "image": "nginx:1.27", "command": ["x"],
    "ports": [{"name": "http", "containerPort": 80, "hostPort": 8080}, {"containerPort": 53, "protocol": "UDP"}],
    "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}}],
    "envFrom": [{"prefix": "P_", "secretRef": {"name": "s"}}],
    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp", "subPath": "a/b"}, {"name": "conf", "mountPath": "/conf", "readOnly": true}],
    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
    "livenessProbe": {"httpGet": {"port": "http"}},
    "readinessProbe": {"tcpSocket": {"port": 80}, "successThreshold": 2},
    "startupProbe": {"grpc": {"port": 80}},
    "lifecycle": {"postStart": {"exec": {"command": ["x"]}}, "preStop": {"sleep": {"seconds": 5}}},
    "securityContext": {"runAsUser": 1000, "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}},
   {"name": "other", "image": "busybox"}],
  "volumes": [
   {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
   {"name": "conf", "configMap": {"name": "c", "items": [{"key": "k", "path": "k.txt", "mode": 256}]}},
   {"name": "host", "hostPath": {"path": "/srv", "type": "Directory"}},
   {"name": "down", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
   {"name": "all", "projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}},
     {"downwardAPI": {"items": [{"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}}]}}]}}],
  "securityContext": {"fsGroup": 5, "sysctls": [{"name": "net.core.somaxconn", "value": "1024"}]},
  "dnsConfig": {"nameservers": ["10.0.0.10"], "searches": ["a.b", "c_d.", "."], "options": [{"name": "ndots", "value": "5"}]},
  "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.b"]}],
  "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
  "hostname": "h", "subdomain": "s"}}
"""
