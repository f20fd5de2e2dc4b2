// Records the objects that KServe's integration tests create, for upstream_samples.py:
//
//	cp tools/kserve_tests.go KSERVE/pkg/controller/v1alpha2/llmisvc/suite_test.go
//	cd KSERVE && go test -c -vet=off -o tests ./pkg/controller/v1alpha2/llmisvc/
//	cd pkg/controller/v1alpha2/llmisvc && RECORDING=/tmp/recording ../../../../tests
//
// It replaces the API server of the test suite with a fake client. No controller runs, so each test
// fails at its first wait for a controller. Each line of the recording is JSON: the name of the test
// and one object.
package llmisvc_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kserve/kserve/pkg/apis/serving/v1alpha2"
	"github.com/kserve/kserve/pkg/constants"
	"github.com/kserve/kserve/pkg/controller/v1alpha2/llmisvc/fixture"
	kservescheme "github.com/kserve/kserve/pkg/scheme"
	pkgtest "github.com/kserve/kserve/pkg/testing"
)

var (
	LocalQueueNameLabelKey         = constants.KueueAPIGroupName + "/queue-name"
	PreemptionReclaimAnnotationKey = constants.KueueAPIGroupName + "/preemption-reclaim-if-below-priority"
)

var envTest *pkgtest.Client

func TestLLMInferenceServiceController(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "recorded")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(time.Millisecond)
	SetDefaultConsistentlyDuration(time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	scheme := runtime.NewScheme()
	Expect(kservescheme.AddAll(scheme)).To(Succeed())
	file, err := os.Create(os.Getenv("RECORDING"))
	Expect(err).NotTo(HaveOccurred())
	encoder := json.NewEncoder(file)
	record := func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		kind, err := apiutil.GVKForObject(object, scheme)
		Expect(err).NotTo(HaveOccurred())
		object.GetObjectKind().SetGroupVersionKind(kind)
		if service, ok := object.(*v1alpha2.LLMInferenceService); ok {
			if _, err := (&v1alpha2.LLMInferenceServiceValidator{}).ValidateCreate(ctx, service); err != nil {
				return err
			}
		}
		line := map[string]any{"test": CurrentSpecReport().FullText(), "object": object}
		Expect(encoder.Encode(line)).To(Succeed())
		return c.Create(ctx, object, options...)
	}
	recorder := fake.NewClientBuilder().WithScheme(scheme).
		WithInterceptorFuncs(interceptor.Funcs{Create: record}).Build()
	envTest = &pkgtest.Client{Client: recorder, Environment: &envtest.Environment{}}
	fixture.RequiredResources(ctx, envTest.Client, constants.KServeNamespace)
})
