// The CRDs of Istio; nothing is built.
module fusioninfer-e2e/istio

go 1.24.0

require istio.io/api v1.31.1
