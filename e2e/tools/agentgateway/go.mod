// The CRDs of agentgateway, as kgateway's release brings them; nothing is built.
module fusioninfer-e2e/agentgateway

go 1.25.5

require github.com/kgateway-dev/kgateway/v2 v2.2.0
