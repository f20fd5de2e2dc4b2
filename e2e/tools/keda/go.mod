// The CRD of ScaledObjects; nothing is built.
module fusioninfer-e2e/keda

go 1.24.0

require github.com/kedacore/keda/v2 v2.17.2
