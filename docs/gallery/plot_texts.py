"""
Answers to a survey
===================

Guests of a hotel wrote what they would change. A sentence model turns each answer into a vector, so
that answers of one meaning are near each other whatever their words. dcfsc sorts them by topic, and
the words that set a cluster apart suggest its name. This needs ``pip install 'dcfsc[texts]'``.
"""

# %%
# Write the answers: a few ways to complain about each of four things. With a file of your own this
# is ``load("answers.csv", text="answer").texts``.

from itertools import product

import matplotlib.pyplot as plt
import numpy as np

from dcfsc import ClosedFormSubspaceClustering, TextEncoderFeatures
from dcfsc.metrics import clustering_error
from dcfsc.report import cluster_words

topics = {
    "breakfast": (
        ["The coffee at breakfast was cold", "No fruit at breakfast", "Stale bread at breakfast"],
        ["the eggs were overcooked", "the breakfast buffet closed too early", "no vegan food"],
    ),
    "noise": (
        ["The walls are thin", "I could not sleep for the noise", "Terrible noise at night"],
        ["my neighbors shouted", "the bar played music at night", "the street noise never ends"],
    ),
    "bathroom": (
        ["The shower had no hot water", "Mold in the bathroom", "The shower drain was blocked"],
        ["the towels were dirty", "the bathroom sink leaked", "the toilet did not flush"],
    ),
    "internet": (
        ["The wifi was slow", "No wifi in my room", "The wifi kept dropping"],
        ["I paid for internet on my phone", "video calls froze", "the internet password was wrong"],
    ),
}
forms = ["{} and {}.", "{}, and also {}!", "{}; besides, {}.", "Honestly: {}, {}.", "{}... {}"]
answers, topic = [], []
for number, (firsts, seconds) in enumerate(topics.values()):
    for form, first, second in product(forms, firsts, seconds):
        answers.append(form.format(first, second))
        topic.append(number)
order = np.random.default_rng(0).permutation(len(answers))
answers, topic = [answers[i] for i in order], np.array(topic)[order]

# %%
# Encode and cluster. The topics only score the result.

Z = TextEncoderFeatures().fit_transform(answers)
model = ClosedFormSubspaceClustering(n_clusters=4, random_state=0).fit(Z)
words = cluster_words(answers, model.labels_, n_words=4)
error = clustering_error(topic, model.labels_)

# %%
# The words that set each cluster apart, and its most confident answer.

figure, axes = plt.subplots(2, 2, figsize=(10, 4.2), layout="constrained")
figure.suptitle(f"{len(answers)} answers in four clusters, {error:.0f}% in a wrong one")
for k, ax in enumerate(axes.flat):
    members = np.flatnonzero(model.labels_ == k)
    typical = answers[members[model.confidence_[members].argmax()]]
    ax.set_title(f"cluster {k}: {len(members)} answers", loc="left", fontsize=10, color=f"C{k}")
    ax.text(0, 0.75, ", ".join(words[k]), fontsize=12, weight="bold", va="center")
    ax.text(0, 0.35, f"“{typical}”", fontsize=10, va="center", wrap=True)
    ax.axis("off")
plt.show()
