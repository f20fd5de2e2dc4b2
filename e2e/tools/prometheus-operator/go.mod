// The CRDs of the monitors; nothing is built.
module fusioninfer-e2e/prometheus-operator

go 1.24.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
