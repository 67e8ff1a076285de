"""ViT-S/16 on ImageNet (ILSVRC 2012), 90 epochs.

    python launch.py --config=configs/imagenet2012.py

Register at image-net.org, and put ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar into
~/tensorflow_datasets/downloads/manual. The final score is that of the 50,000 validation images. The
last hundredth of the training images is for validation.

The recipe is that of Beyer et al. 2022, "Better plain ViT baselines for ImageNet-1k"
(arXiv:2205.01580), which reaches 76.7 % with a linear head like this one's, in a working day on 8
TPU v3 cores. This config lacks its RandAugment, mixup and fixed sinusoidal positions, so expect
less (we have not run it to the end). The paper's weight decay of 1e-4 is not multiplied by the
learning rate; optax multiplies, so it is 0.1 here.
"""

from ml_collections import ConfigDict

from configs import image_classification


def get_config() -> ConfigDict:
    config = image_classification.get_config()
    config.data.batch_images = 1024
    config.model.pooling = "mean"
    config.model.mean = (0.5, 0.5, 0.5)
    config.model.std = (0.5, 0.5, 0.5)
    config.model.d_model = 384
    config.model.d_ff = 1536
    config.model.num_heads = 6
    config.model.dropout_rate = 0.0
    config.model.activation_dropout_rate = 0.0
    config.optimizer.arguments.weight_decay = 0.1
    config.optimizer.schedule.peak_value = 1e-3
    config.train.num_steps = 111_500  # 90 epochs
    return config
