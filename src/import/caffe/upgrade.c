// Old forms of networks in the new one: V1 layers become V2 layers, V0 layers are refused.
#include "import/caffe/importer.h"

// V1LayerParameter.LayerType. Source: upgrade_proto.cpp of BVLC/caffe.
static const char* const kTypes[] = {
    [1] = "Accuracy",
    [2] = "BNLL",
    [3] = "Concat",
    [4] = "Convolution",
    [5] = "Data",
    [6] = "Dropout",
    [7] = "EuclideanLoss",
    [8] = "Flatten",
    [9] = "HDF5Data",
    [10] = "HDF5Output",
    [11] = "Im2col",
    [12] = "ImageData",
    [13] = "InfogainLoss",
    [14] = "InnerProduct",
    [15] = "LRN",
    [16] = "MultinomialLogisticLoss",
    [17] = "Pooling",
    [18] = "ReLU",
    [19] = "Sigmoid",
    [20] = "Softmax",
    [21] = "SoftmaxWithLoss",
    [22] = "Split",
    [23] = "TanH",
    [24] = "WindowData",
    [25] = "Eltwise",
    [26] = "Power",
    [27] = "SigmoidCrossEntropyLoss",
    [28] = "HingeLoss",
    [29] = "MemoryData",
    [30] = "ArgMax",
    [31] = "Threshold",
    [32] = "DummyData",
    [33] = "Slice",
    [34] = "MVN",
    [35] = "AbsVal",
    [36] = "Silence",
    [37] = "ContrastiveLoss",
    [38] = "Exp",
    [39] = "Deconvolution",
};

carnot_status* caffe_upgrade(caffe_net* net) {
  const int64_t count = sizeof(kTypes) / sizeof(kTypes[0]);
  if (net->layers.count == 0) return NULL;
  CARNOT_CHECK(net->layer.count == 0, INVALID_MODEL,
               "the network has layers of the old form (layers) and of the new one (layer)");
  for (size_t i = 0; i < net->layers.count; i++) {
    caffe_layer* layer = &net->layers.items[i];
    CARNOT_CHECK(!layer->v0, UNSUPPORTED,
                 "layer " CARNOT_VIEW_FMT
                 " is of Caffe's first form (V0, layers { layer { }}): "
                 "bring the files to the present one with Caffe's upgrade_net_proto_text and "
                 "upgrade_net_proto_binary",
                 CARNOT_VIEW_ARG(layer->v0->name));
    CARNOT_CHECK(layer->v1_type > 0 && layer->v1_type < count, INVALID_MODEL,
                 "layer " CARNOT_VIEW_FMT " is of type %lld; 1 to %lld exist",
                 CARNOT_VIEW_ARG(layer->name), (long long)layer->v1_type, (long long)count - 1);
    layer->type = carnot_view(kTypes[layer->v1_type]);
  }
  net->layer = net->layers;
  return NULL;
}
