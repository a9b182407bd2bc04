// The Service of a tenant's control plane with its endpoints, as Kamaji and Steward create them.

export function tenantService(
  namespace: string,
  name: string,
  address: string,
  port: number,
): readonly object[] {
  const metadata = { name, namespace };
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: {
        ports: [
          { name: 'kube-apiserver', port: 6443, targetPort: port, protocol: 'TCP' },
          { name: 'konnectivity-server', port: 8132, targetPort: port, protocol: 'TCP' },
        ],
      },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': name } },
      addressType: 'IPv4',
      endpoints: [{ addresses: [address], conditions: { ready: true } }],
      ports: [
        { name: 'kube-apiserver', port, protocol: 'TCP' },
        { name: 'konnectivity-server', port, protocol: 'TCP' },
      ],
    },
  ];
}
